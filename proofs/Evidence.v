(** Evidence of every kind, ensembles of any kinds, and what is promised about them.  (docs/soundness.md, whole)

    The three answers that a kind gives: its label, its reach, and what it says without. *)
From Majorcert Require Export Votes Masking PatchGuard Detection Ensemble.

(** How the views of a defender are cut. *)
Inductive kind :=
  | Voting (cuts : list strategy)                         (** one strategy, or those of a pool *)
  | DoubleMasking (guarded : size) (stride : N)
  | RobustMasking (cut : strategy) (mask : size) (share : N * N).

(** What it said on the clean image. *)
Inductive record :=
  | Ballots (ballots : list ballot)
  | Pairs (weak : list bool) (table : list (list label))   (** weak: rows that are fragile *)
  | Scores (rows : scores).

Definition defender := (kind * record)%type.

(** The question: images of this size and so many classes, a patch of this size. *)
Record question := Question { image : size; classes : N; patch : size }.

Definition windows (q : question) (cut : strategy) (mask : size) : list (list bool) :=
  map (touched (image q) mask cut) (placements (image q) mask).

(** The label of a defender. *)
Definition label_of (q : question) (d : defender) : label :=
  match d with
  | (Voting _, Ballots ballots) => vote (classes q) ballots
  | (DoubleMasking _ _, Pairs _ table) => double_masked (classes q) table
  | (RobustMasking cut mask share, Scores rows) => masked_label (classes q) share (windows q cut mask) rows
  | _ => 0
  end.

(** The ballots that the patch touches, or the masks that hide it. *)
Definition marks_of (q : question) (k : kind) (p : pixel) : list bool :=
  match k with
  | Voting cuts => flat_map (fun cut => touched (image q) (patch q) cut p) cuts
  | DoubleMasking guarded stride => covered (patch q) (masks (image q) guarded stride) p
  | RobustMasking cut _ _ => touched (image q) (patch q) cut p
  end.

(** What a patch at placement [p] may make of the record. *)
Definition attacked (q : question) (p : pixel) (before after : defender) : Prop :=
  fst after = fst before /\
  match snd before, snd after with
  | Ballots ballots, Ballots ballots' => rewritten (marks_of q (fst before) p) ballots ballots'
  | Pairs weak table, Pairs _ table' =>
      entries_rewritten (classes q) (marks_of q (fst before) p) weak table table' /\ in_classes (classes q) table'
  | Scores rows, Scores rows' => rescored (marks_of q (fst before) p) rows rows'
  | _, _ => False
  end.

(** The label of an ensemble. A patch attacks all its members at the same placement. *)
Definition ensemble_label (q : question) (ensemble : list defender) : label :=
  verdict (classes q) (map (label_of q) ensemble).
Definition ensemble_attacked (q : question) (p : pixel) : list defender -> list defender -> Prop :=
  Forall2 (attacked q p).

(** RECOVERY: no patch, wherever it lies and whatever it shows, changes the label. *)
Definition recovers (q : question) (ensemble : list defender) (y : label) : Prop :=
  forall p after, In p (placements (image q) (patch q)) -> ensemble_attacked q p ensemble after ->
  ensemble_label q after = y.

(** What a member says without all that a patch at [p] could touch; some cannot say. *)
Definition without_of (q : question) (p : pixel) (d : defender) : option label :=
  match d with
  | (Voting _, Ballots ballots) => Some (without (classes q) (marks_of q (fst d) p) ballots)
  | (DoubleMasking _ _, Pairs _ table) => masking_without (marks_of q (fst d) p) table
  | _ => None
  end.

(** A member that cannot say could say anything. *)
Definition possible (answer : option label) (c : label) : bool :=
  match answer with
  | Some said => c =? said
  | None => true
  end.

(** The ensemble raises an alert iff at some placement its label need not be the plurality of these. *)
Definition ensemble_alert (q : question) (ensemble : list defender) : bool :=
  existsb (fun p => negb (closed_form (classes q) (map (fun d => possible (without_of q p d)) ensemble)
                            (ensemble_label q ensemble)))
    (placements (image q) (patch q)).

(** DETECTION: no patch changes the label without an alert. *)
Definition detects (q : question) (ensemble : list defender) (y : label) : Prop :=
  forall p after, In p (placements (image q) (patch q)) -> ensemble_attacked q p ensemble after ->
  ensemble_label q after = y \/ ensemble_alert q after = true.

(** ** Reach and without-sets of every kind, from the marks *)

(** The marks that the reach is made from: of robust masking, those of a placed mask patch that holds the patch. *)
Definition within (small large : size) : bool := (fst small <=? fst large) && (snd small <=? snd large).
Definition around (image mask : size) (p : pixel) : pixel :=
  (N.min (fst p) (fst image - fst mask), N.min (snd p) (snd image - snd mask)).
Definition ground (q : question) (k : kind) (p : pixel) : list bool :=
  match k with
  | RobustMasking cut mask _ => touched (image q) mask cut (around (image q) mask p)
  | _ => marks_of q k p
  end.

Definition reach_on (q : question) (d : defender) (marks : list bool) (c : label) : bool :=
  match d with
  | (Voting _, Ballots ballots) => reach (classes q) marks ballots c
  | (DoubleMasking _ _, Pairs weak table) => masking_reach marks weak table c
  | (RobustMasking cut mask share, Scores rows) =>
      negb (within (patch q) mask) || guarded_reach (classes q) share (windows q cut mask) marks rows c
  | _ => true
  end.

Definition may_say_on (q : question) (d : defender) (marks : list bool) (c : label) : bool :=
  match d with
  | (Voting _, Ballots ballots) => may_say_without (classes q) 0 marks ballots c
  | (DoubleMasking _ _, Pairs weak table) => masking_may_say marks weak table c
  | _ => true
  end.

(** The record has the shape that its kind asks for. *)
Definition fitting (q : question) (d : defender) : Prop :=
  match d with
  | (Voting cuts, Ballots ballots) => length ballots = length (flat_map (regions (image q)) cuts)
  | (DoubleMasking _ _, Pairs _ table) => symmetric table /\ singles_known (classes q) table /\ table <> []
  | (RobustMasking cut mask share, Scores rows) =>
      fits (image q) mask = true /\ fst share < snd share /\ length rows = length (regions (image q) cut)
  | _ => False
  end.

Definition asked_well (q : question) : Prop := fits (image q) (patch q) = true /\ 0 < classes q.

(** * Proofs *)

Lemma marks_length : forall q cuts p,
  length (marks_of q (Voting cuts) p) = length (flat_map (regions (image q)) cuts).
Proof.
  intros q cuts p. simpl. induction cuts as [| cut cuts IH]; simpl; [reflexivity |].
  rewrite !app_length, touched_length, IH. reflexivity.
Qed.

Lemma double_masked_in_range : forall n table, in_classes n table -> table <> [] -> double_masked n table < n.
Proof.
  intros n table H Hne. unfold double_masked.
  assert (Hpos : (0 < length table)%nat) by (destruct table; [contradiction | simpl; lia]).
  assert (Hd : hd 0 (alone table) < n).
  { unfold alone. destruct (length table) eqn:E; [lia |]. simpl. apply H; lia. }
  destruct (forallb _ _); [assumption |]. destruct (find _ _) as [i |] eqn:F.
  - apply find_some in F. destruct F as [Hi _]. apply in_rows in Hi. apply H; assumption.
  - apply verdict_in_range. lia.
Qed.

Lemma around_holds : forall q mask p, asked_well q -> fits (image q) mask = true -> within (patch q) mask = true ->
  In p (placements (image q) (patch q)) ->
  In (around (image q) mask p) (placements (image q) mask) /\
  incl (rectangle p (patch q)) (rectangle (around (image q) mask p) mask).
Proof.
  intros q mask [top left] [Hq _] Hm Hw Hp. apply placements_are_all in Hp; [| assumption].
  unfold within in Hw. unfold fits in *. unfold around. split.
  - apply placements_are_all; [unfold fits; assumption |]. simpl. lia.
  - intros x Hx. apply in_rectangle in Hx. apply in_rectangle. simpl in *. lia.
Qed.

(** Whatever the kind: after any attack, the defender says a label of its reach. *)
Theorem every_reach_is_sound : forall q p before after, asked_well q -> fitting q before ->
  In p (placements (image q) (patch q)) -> attacked q p before after ->
  label_of q after < classes q /\ reach_on q before (ground q (fst before) p) (label_of q after) = true.
Proof.
  intros q p [k r] [k' r'] Hq Hf Hp [Hk Ha]. simpl in Hk. subst k'. destruct Hq as [Hfit Hpos].
  destruct k, r; simpl in Hf; try contradiction Hf; destruct r'; simpl in Ha; try contradiction Ha; simpl.
  - split; [apply vote_in_range; assumption | apply reach_is_sound; assumption].
  - destruct Hf as [Hs [Hc Hne]]. destruct Ha as [Ha Hin]. split.
    + apply double_masked_in_range; [assumption |]. destruct Ha as [Hlen _].
      destruct table, table0; simpl in Hlen; congruence.
    + apply masking_reach_is_sound; assumption.
  - split; [apply plurality_wins; assumption |].
    destruct (within (patch q) mask) eqn:W; [| reflexivity]. simpl. destruct Hf as [Hm [Hshare Hlen]].
    destruct (around_holds q mask p) as [Hin Hincl]; try assumption; [split; assumption |].
    apply guarded_reach_is_sound; [assumption | assumption | apply in_map; assumption |].
    eapply rescored_fewer; [| eassumption]. apply smaller_touches_fewer. assumption.
Qed.

(** THEOREM (recovery). If at every placement the closed form holds for the members' reaches, no patch changes the
    label. *)
Theorem certified_recovers : forall q ensemble y, asked_well q -> Forall (fitting q) ensemble -> y < classes q ->
  (forall p, In p (placements (image q) (patch q)) ->
     closed_form (classes q) (map (fun d => reach_on q d (ground q (fst d) p)) ensemble) y = true) ->
  recovers q ensemble y.
Proof.
  intros q ensemble y Hq Hf Hy H p after Hp Ha. specialize (H p Hp).
  apply closed_form_suffices in H; [| assumption]. apply H. clear H.
  induction Ha as [| d d' ensemble after Hd Ha IH]; simpl; constructor.
  - apply every_reach_is_sound; [assumption | inversion Hf; assumption | assumption | assumption].
  - apply IH. inversion Hf; assumption.
Qed.

(** ... and for voting defenders and pools it is exact: if not certified, some patch of ballots changes the label. *)
Definition is_voting (d : defender) : Prop := match d with (Voting _, Ballots _) => True | _ => False end.

Lemma voting_reach_has_a_label : forall q p d, asked_well q -> fitting q d -> is_voting d ->
  has_a_label (classes q) (reach_on q d (ground q (fst d) p)).
Proof.
  intros q p [[cuts | |] [ballots | |]] [_ Hpos] Hf Hv; simpl in Hv; try contradiction Hv.
  exists (vote (classes q) ballots). split; [apply vote_in_range; assumption |].
  apply clean_label_in_reach; [assumption |]. exact (eq_trans (marks_length q cuts p) (eq_sym Hf)).
Qed.

Lemma voting_reach_is_tight : forall q p d c, asked_well q -> fitting q d -> is_voting d -> c < classes q ->
  reach_on q d (ground q (fst d) p) c = true -> exists after, attacked q p d after /\ label_of q after = c.
Proof.
  intros q p [[cuts | |] [ballots | |]] c [_ Hpos] Hf Hv Hc H; simpl in Hv; try contradiction Hv.
  destruct (reach_is_tight (classes q) (marks_of q (Voting cuts) p) ballots c) as [after [Ha Hl]]; try assumption.
  - rewrite marks_length. symmetry. exact Hf.
  - exists (Voting cuts, Ballots after). split; [split; [reflexivity | exact Ha] | exact Hl].
Qed.

Theorem recovery_is_exact : forall q ensemble y, asked_well q -> Forall (fitting q) ensemble ->
  Forall is_voting ensemble -> y < classes q ->
  (recovers q ensemble y <->
   forall p, In p (placements (image q) (patch q)) ->
     closed_form (classes q) (map (fun d => reach_on q d (ground q (fst d) p)) ensemble) y = true).
Proof.
  intros q ensemble y Hq Hf Hv Hy. split; [| apply certified_recovers; assumption].
  intros H p Hp. apply closed_form_is_theorem2; [assumption | |].
  - clear H. induction Hf; simpl; inversion Hv; subst; constructor; auto using voting_reach_has_a_label.
  - intros pick Hpick.
    assert (Hafter : exists after, ensemble_attacked q p ensemble after /\ map (label_of q) after = pick).
    { clear H. revert Hv pick Hpick. induction Hf as [| d ensemble Hd Hf IH]; intros Hv pick Hpick.
      - inversion Hpick. exists []. split; constructor.
      - inversion Hpick as [| ? c ? rest [Hc Hr] Hrest]; subst. inversion Hv as [| ? ? Hvd Hve]; subst.
        destruct (IH Hve rest Hrest) as [after [Ha Hl]].
        destruct (voting_reach_is_tight q p d c Hq Hd Hvd Hc Hr) as [d' [Hd' Hl']].
        exists (d' :: after). split; [constructor; assumption | cbn [map]; rewrite Hl, Hl'; reflexivity]. }
    destruct Hafter as [after [Ha <-]]. exact (H p after Hp Ha).
Qed.

(** ** Detection *)
Lemma every_without_is_sound : forall q p before after c, asked_well q -> fitting q before ->
  attacked q p before after -> possible (without_of q p after) c = true ->
  may_say_on q before (ground q (fst before) p) c = true.
Proof.
  intros q p [k r] [k' r'] c [Hfit Hpos] Hf [Hk Ha] H. simpl in Hk. subst k'.
  destruct k, r; simpl in Hf; try contradiction Hf; destruct r'; simpl in Ha; try contradiction Ha; simpl in *.
  - apply N.eqb_eq in H. subst c. apply without_is_sound; assumption.
  - destruct Ha as [Ha Hin].
    destruct (masking_without (covered (patch q) (masks (image q) guarded stride) p) table0) as [said |] eqn:E;
      simpl in H.
    + apply N.eqb_eq in H. subst c. destruct Hf as [_ [Hknown _]]. eapply masking_without_stays; eassumption.
    + unfold masking_without, masking_may_say, first_hiding in *. destruct Ha as [Hlen _]. rewrite Hlen in E.
      destruct (find _ _); [discriminate E | reflexivity].
  - reflexivity.
Qed.

Lemma something_is_possible : forall q p d, asked_well q ->
  (exists before, fitting q before /\ attacked q p before d) ->
  has_a_label (classes q) (possible (without_of q p d)).
Proof.
  intros q p [k r] [_ Hpos] [[k' r'] [Hf [Hk Ha]]]. simpl in Hk. subst k'.
  assert (Hany : has_a_label (classes q) (possible None)) by (exists 0; auto).
  destruct k, r'; simpl in Hf; try contradiction Hf; destruct r; simpl in Ha; try contradiction Ha; simpl;
    [| | exact Hany].
  - eexists. split; [| simpl; apply N.eqb_refl]. apply plurality_wins. assumption.
  - destruct Ha as [_ Hin].
    destruct (masking_without (covered (patch q) (masks (image q) guarded stride) p) table0) as [c |] eqn:E;
      [| exact Hany].
    exists c. split; [| simpl; apply N.eqb_refl]. unfold masking_without, first_hiding in E.
    destruct (find _ _) as [i |] eqn:F; [| discriminate E]. injection E as <-.
    apply find_some in F. destruct F as [Hi _]. apply in_rows in Hi. apply Hin; assumption.
Qed.

(** THEOREM (detection). If at every placement the closed form holds for what the members may say without, no patch
    changes the label without an alert. *)
Theorem certified_detects : forall q ensemble y, asked_well q -> Forall (fitting q) ensemble -> y < classes q ->
  (forall p, In p (placements (image q) (patch q)) ->
     closed_form (classes q) (map (fun d => may_say_on q d (ground q (fst d) p)) ensemble) y = true) ->
  detects q ensemble y.
Proof.
  intros q ensemble y Hq Hf Hy H p after Hp Ha. specialize (H p Hp).
  destruct (N.eq_dec (ensemble_label q after) y) as [| Hne]; [auto |]. right.
  apply existsb_exists. exists p. split; [assumption |]. apply negb_true_iff. apply not_true_iff_false. intros Hz.
  apply closed_form_suffices in H; [| assumption].
  apply closed_form_suffices in Hz; [| apply verdict_in_range; apply Hq].
  set (sets := map (fun d => possible (without_of q p d)) after) in *.
  assert (Hpick : exists pick, picked (classes q) sets pick /\
            picked (classes q) (map (fun d => may_say_on q d (ground q (fst d) p)) ensemble) pick).
  { unfold sets. clear Hz Hne H sets. revert Hf. induction Ha as [| d d' ensemble after Hd Ha IH]; intros Hf; simpl.
    - exists []. split; constructor.
    - inversion Hf as [| ? ? Hfd Hfe]; subst. destruct (IH Hfe) as [pick [H1 H2]].
      destruct (something_is_possible q p d' Hq) as [c [Hc Hpc]]; [exists d; auto |].
      exists (c :: pick). split; constructor; auto. split; [assumption |].
      eapply every_without_is_sound; eassumption. }
  destruct Hpick as [pick [H1 H2]]. apply Hne. rewrite <- (Hz pick H1). exact (H pick H2).
Qed.

(** Where every member can say, the alert is as it reads: the plurality of what they say is not the label. *)
Theorem alert_where_all_say : forall n said y, 0 < n -> y < n -> Forall (fun c => c < n) said ->
  closed_form n (map (fun c => possible (Some c)) said) y = (verdict n said =? y).
Proof.
  intros n said y Hpos Hy Hs.
  assert (Hp : forall pick, picked n (map (fun c => possible (Some c)) said) pick <-> pick = said).
  { intros pick. split.
    - revert pick. induction said as [| c said IH]; intros pick H;
        inversion H as [| ? d ? rest [_ Hd] Hrest]; subst; [reflexivity |].
      inversion Hs; subst. f_equal; [apply N.eqb_eq; exact Hd | auto].
    - intros ->. unfold picked. induction Hs; simpl; constructor; auto. split; [assumption | apply N.eqb_refl]. }
  apply eq_true_iff_eq. rewrite N.eqb_eq, closed_form_is_theorem2; [| assumption |].
  - split; [intros H; apply H, Hp; reflexivity | intros <- pick Hpick; apply Hp in Hpick; subst; reflexivity].
  - clear Hp. induction Hs; simpl; constructor; auto. exists x. split; [assumption | apply N.eqb_refl].
Qed.

(** One voting defender or pool, with a slack. *)
Definition slack_alert (q : question) (slack : N) (d : defender) : bool :=
  match d with
  | (Voting cuts, Ballots ballots) =>
      alert (classes q) slack (map (marks_of q (Voting cuts)) (placements (image q) (patch q))) ballots
  | _ => true
  end.

Definition slack_detects (q : question) (slack : N) (d : defender) (y : label) : Prop :=
  forall p after, In p (placements (image q) (patch q)) -> attacked q p d after ->
  label_of q after = y \/ slack_alert q slack after = true.

Theorem certified_detects_with_slack : forall q slack cuts ballots y, asked_well q -> y < classes q ->
  (forall p, In p (placements (image q) (patch q)) ->
     leads (classes q) slack (marks_of q (Voting cuts) p) ballots y = true) ->
  slack_detects q slack (Voting cuts, Ballots ballots) y.
Proof.
  intros q slack cuts ballots y [_ Hpos] Hy H p [k r] Hp [Hk Ha]. simpl in Hk. subst k.
  destruct r; simpl in Ha; try contradiction Ha.
  apply (detection_with_slack (classes q) slack _ (marks_of q (Voting cuts) p) ballots); auto.
  apply in_map_iff. eauto.
Qed.

(** ** Theorem 1, and the published condition of double masking, for whole images *)

(** More than half of the members can be made to say nothing but [y], at every placement. *)
Theorem theorem1 : forall q ensemble y, asked_well q -> Forall (fitting q) ensemble -> y < classes q ->
  (forall p, In p (placements (image q) (patch q)) -> N.of_nat (length ensemble) <
     2 * count (only (classes q) y) (map (fun d => reach_on q d (ground q (fst d) p)) ensemble)) ->
  recovers q ensemble y.
Proof.
  intros q ensemble y Hq Hf Hy H. apply certified_recovers; try assumption. intros p Hp.
  apply theorem1_implies_theorem2; [assumption |]. rewrite map_length. auto.
Qed.

(** A margin is one way to know that. *)
Theorem margin_makes_sure : forall q most cuts ballots p, asked_well q -> fitting q (Voting cuts, Ballots ballots) ->
  touched_points (marks_of q (Voting cuts) p) ballots <= most -> margin (classes q) most ballots = true ->
  only (classes q) (vote (classes q) ballots)
    (reach_on q (Voting cuts, Ballots ballots) (ground q (Voting cuts) p)) = true.
Proof.
  intros q most cuts ballots p [_ Hpos] Hf Ht Hm. apply only_iff.
  apply certified_iff_reach_is_label; [assumption | exact (eq_trans (marks_length q cuts p) (eq_sym Hf)) |].
  apply (margin_certifies (classes q) most); try assumption. exact (eq_trans (marks_length q cuts p) (eq_sym Hf)).
Qed.

(** A mask set hides every placement of the patch that it is made for, and of every smaller one. *)
Lemma a_mask_starts_there : forall n guarded length stride top, 0 < stride -> 0 < length -> length <= guarded ->
  top + length <= n -> exists start, In start (mask_starts n (mask_extent n guarded stride) stride) /\
    start <= top /\ top + length <= start + mask_extent n guarded stride.
Proof.
  intros n guarded length stride top Hs Hl Hg Ht. unfold mask_starts, mask_extent.
  set (extent := N.min n (guarded + stride - 1)). assert (Hx : extent = N.min n (guarded + stride - 1)) by reflexivity.
  clearbody extent. pose proof (N.div_mod top stride ltac:(lia)) as D. pose proof (N.mod_lt top stride ltac:(lia)) as M.
  assert (Hmod : (stride * (top / stride)) mod stride = 0) by (rewrite N.mul_comm; apply N.mod_mul; lia).
  set (first := stride * (top / stride)) in *. clearbody first.
  set (rest := top mod stride) in *. clearbody rest.
  destruct (N.lt_ge_cases first (n - extent)) as [E | E].
  - exists first. split; [| lia]. apply in_or_app. left. apply filter_In. split; [apply in_range; lia |].
    rewrite Hmod. lia.
  - exists (n - extent). split; [apply in_or_app; right; left; reflexivity | lia].
Qed.

Theorem masks_hide_every_placement : forall q guarded stride p, asked_well q -> 0 < stride ->
  within (patch q) guarded = true -> In p (placements (image q) (patch q)) ->
  exists k, (k < length (masks (image q) guarded stride))%nat /\
    marked_at (marks_of q (DoubleMasking guarded stride) p) k = true.
Proof.
  intros q guarded stride [top left] [Hfit _] Hs Hw Hp. apply placements_are_all in Hp; [| assumption].
  unfold fits, within in *.
  destruct (a_mask_starts_there (fst (image q)) (fst guarded) (fst (patch q)) stride top) as [row [Hr Hr']]; try lia.
  destruct (a_mask_starts_there (snd (image q)) (snd guarded) (snd (patch q)) stride left) as [column [Hc Hc']];
    try lia.
  assert (Hin : In true (marks_of q (DoubleMasking guarded stride) (top, left))).
  { cbn [marks_of]. unfold covered. apply in_map_iff.
    exists (rectangle (row, column) (mask_extent (fst (image q)) (fst guarded) stride,
      mask_extent (snd (image q)) (snd guarded) stride)).
    split.
    - apply hidden_iff. intros x Hx. apply in_rectangle in Hx. apply in_rectangle. simpl in *. lia.
    - unfold masks. apply in_map_iff. exists (row, column). split; [reflexivity |]. apply in_prod_iff. auto. }
  apply (In_nth _ _ false) in Hin. destruct Hin as [k [Hk Hn]]. exists k. split; [| exact Hn].
  cbn [marks_of] in Hk. unfold covered in Hk. rewrite map_length in Hk. exact Hk.
Qed.

Theorem all_pairs_recover : forall q guarded stride table y, asked_well q -> 0 < stride ->
  within (patch q) guarded = true -> fitting q (DoubleMasking guarded stride, Pairs [] table) ->
  length table = length (masks (image q) guarded stride) ->
  (forall i j, (i < length table)%nat -> (j < length table)%nat -> entry table i j = y) ->
  forall p after, In p (placements (image q) (patch q)) ->
    attacked q p (DoubleMasking guarded stride, Pairs [] table) after ->
  label_of q after = y.
Proof.
  intros q guarded stride table y Hq Hs Hw [Hsym [Hknown Hne]] Hlen Hall p [k r] Hp [Hk Ha]. simpl in Hk. subst k.
  destruct r; simpl in Ha; try contradiction Ha. destruct Ha as [Ha _]. simpl.
  assert (Hpos : (0 < length table)%nat) by (destruct table; [contradiction | simpl; lia]).
  eapply all_pairs_agree; [exact Hsym | | exact Hall | | exact Ha].
  { rewrite <- (Hall 0%nat 0%nat) by assumption. apply Hknown. assumption. }
  destruct (masks_hide_every_placement q guarded stride p Hq Hs Hw Hp) as [i [Hi Hn]]. exists i.
  split; [lia | exact Hn].
Qed.

(** ** Smaller patches *)
Definition with_patch (q : question) (p : size) : question := Question (image q) (classes q) p.

Lemma fewer_touched : forall q small p larger cuts, incl (rectangle p small) (rectangle larger (patch q)) ->
  fewer (marks_of (with_patch q small) (Voting cuts) p) (marks_of q (Voting cuts) larger).
Proof.
  intros q small p larger cuts H. simpl. induction cuts as [| cut cuts IH]; simpl; [constructor |].
  apply Forall2_app; [apply smaller_touches_fewer; assumption | assumption].
Qed.

Lemma rewritten_fewer : forall marks more before after, fewer marks more -> rewritten marks before after ->
  rewritten more before after.
Proof.
  intros marks more before after Hf H. revert more Hf.
  induction H; intros more Hf; inversion Hf; subst; [constructor | |].
  - destruct y; [apply becomes | apply stays]; auto.
  - apply becomes; auto. destruct H; auto.
Qed.

(** What a small patch can do, a larger one can do as well. *)
Lemma smaller_can_do_less : forall q small p larger before after, fitting q before ->
  incl (rectangle p small) (rectangle larger (patch q)) ->
  attacked (with_patch q small) p before after -> attacked q larger before after.
Proof.
  intros q small p larger [k r] [k' r'] Hf Hincl [Hk Ha]. simpl in Hk. subst k'. split; [reflexivity |].
  destruct k, r; simpl in Hf; try contradiction Hf; destruct r'; simpl in Ha; try contradiction Ha.
  - apply (rewritten_fewer _ _ _ _ (fewer_touched q small p larger cuts Hincl) Ha).
  - destruct Ha as [Ha Hin]. split; [| assumption].
    eapply more_marks_less_attack; [| exact Ha]. apply smaller_is_covered_by_more. assumption.
  - eapply rescored_fewer; [| exact Ha]. apply smaller_touches_fewer. assumption.
Qed.

(** THEOREM (monotone). What holds against a patch holds against every smaller one. *)
Theorem recovers_smaller : forall q small ensemble y, asked_well q -> fits (image q) small = true ->
  within small (patch q) = true -> Forall (fitting q) ensemble ->
  recovers q ensemble y -> recovers (with_patch q small) ensemble y.
Proof.
  intros q small ensemble y Hq Hs Hw Hf H p after Hp Ha.
  destruct (smaller_lies_inside (image q) small (patch q) p) as [larger [Hin Hincl]];
    [assumption | apply Hq | unfold within in Hw; lia | unfold within in Hw; lia | assumption |].
  apply (H larger after Hin). clear H Hin Hp. unfold ensemble_attacked in *. revert Hf.
  induction Ha; intros Hf; inversion Hf; subst; constructor; auto.
  eapply smaller_can_do_less; eassumption.
Qed.

(** A smaller patch than the agreed one changes no label without an alert either; the alert is that of the agreed
    size. *)
Theorem detects_smaller : forall q small ensemble y, asked_well q -> fits (image q) small = true ->
  within small (patch q) = true -> Forall (fitting q) ensemble -> detects q ensemble y ->
  forall p after, In p (placements (image q) small) -> ensemble_attacked (with_patch q small) p ensemble after ->
  ensemble_label q after = y \/ ensemble_alert q after = true.
Proof.
  intros q small ensemble y Hq Hs Hw Hf H p after Hp Ha.
  destruct (smaller_lies_inside (image q) small (patch q) p) as [larger [Hin Hincl]];
    [assumption | apply Hq | unfold within in Hw; lia | unfold within in Hw; lia | assumption |].
  apply (H larger after Hin). clear H Hin Hp. unfold ensemble_attacked in *. revert Hf.
  induction Ha; intros Hf; inversion Hf; subst; constructor; auto.
  eapply smaller_can_do_less; eassumption.
Qed.

(** The certificate is monotone too, so the largest certified patch is found by bisection. *)
Lemma every_smaller_reach : forall q small p d c, asked_well q -> fits (image q) small = true ->
  within small (patch q) = true -> fitting q d -> In p (placements (image q) small) ->
  reach_on (with_patch q small) d (ground (with_patch q small) (fst d) p) c = true ->
  reach_on q d (ground q (fst d) (around (image q) (patch q) p)) c = true.
Proof.
  intros q small [top left] [k r] c [Hfit Hpos] Hs Hw Hf Hp.
  assert (Hincl : incl (rectangle (top, left) small) (rectangle (around (image q) (patch q) (top, left)) (patch q))).
  { apply placements_are_all in Hp; [| assumption]. intros x Hx. apply in_rectangle in Hx. apply in_rectangle.
    unfold within, fits, around in *. simpl in *. lia. }
  destruct k, r; simpl in Hf; try contradiction Hf; unfold reach_on, ground, fst.
  - apply smaller_reaches_fewer. apply fewer_touched. assumption.
  - destruct Hf as [Hsym [Hknown _]]. apply (smaller_masking_reach (classes q)); try assumption.
    apply smaller_is_covered_by_more. assumption.
  - destruct (within (patch q) mask) eqn:W; [| reflexivity].
    replace (within (patch (with_patch q small)) mask) with true by (unfold within in *; simpl in *; lia).
    replace (around (image q) mask (around (image q) (patch q) (top, left)))
      with (around (image (with_patch q small)) mask (top, left)); [auto |].
    unfold around, within in *. simpl in *. f_equal; lia.
Qed.

Theorem certificate_is_monotone : forall q small ensemble y, asked_well q -> fits (image q) small = true ->
  within small (patch q) = true -> Forall (fitting q) ensemble ->
  (forall p, In p (placements (image q) (patch q)) ->
     majority_invariant (classes q) (map (fun d => reach_on q d (ground q (fst d) p)) ensemble) y) ->
  forall p, In p (placements (image q) small) ->
     majority_invariant (classes q)
       (map (fun d => reach_on (with_patch q small) d (ground (with_patch q small) (fst d) p)) ensemble) y.
Proof.
  intros q small ensemble y Hq Hs Hw Hf H p Hp.
  assert (Hin : In (around (image q) (patch q) p) (placements (image q) (patch q))).
  { destruct p as [top left]. destruct Hq as [Hfit _]. apply placements_are_all in Hp; [| assumption].
    apply placements_are_all; [assumption |]. unfold fits, around in *. simpl in *. lia. }
  eapply smaller_reaches_keep_theorem2; [| exact (H _ Hin)]. clear H Hin.
  induction Hf as [| d ensemble Hd Hf IH]; simpl; constructor; [| assumption].
  intros c _. apply every_smaller_reach; assumption.
Qed.
