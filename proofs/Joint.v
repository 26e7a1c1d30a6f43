(** No alert at will: neither the label nor an alert can be had by a patch.  (docs/soundness.md, "No alert at will")

    A patch lies at one placement, and an alert asks what is said without another. Ballots that the patch touches are as
    good as fragile there: they may be anything, unless they are left out. *)
From Majorcert Require Export Evidence.

(** The ballots with those that are marked fragile as well. *)
Fixpoint frail (marks : list bool) (ballots : list ballot) : list ballot :=
  match marks, ballots with
  | mark :: marks, b :: ballots => Ballot (worth b) (mark || fragile b) (says b) :: frail marks ballots
  | _, _ => ballots
  end.

(** A patch at [p] cannot make another label beat [y] and the slack without [q]. *)
Definition calm (classes slack : N) (p q : list bool) (ballots : list ballot) (y : label) : bool :=
  forallb (fun c => (c =? y) || negb (beats c (kept c q (frail p ballots) + doubtful q (frail p ballots)) y
                                        (kept y q (frail p ballots) + slack))) (labels classes).

(** * Proofs *)

Lemma frail_is_attacked : forall p before after, rewritten p before after ->
  forall q, length q = length before -> rewritten q (frail p before) after.
Proof.
  intros p before after H. induction H as [| b p before after Hb H IH | m b any p before after Hm Hw H IH];
    intros [| n q] Hl; try discriminate Hl; simpl; [constructor | |]; injection Hl as Hl.
  - destruct b as [w f s]. simpl in *. subst f. destruct n; [apply becomes | apply stays]; auto.
  - apply becomes; [right; simpl; lia | assumption | auto].
Qed.

(** ** One voting defender or pool, with a slack *)
Lemma calm_is_silent : forall classes slack p q before after y, length q = length before -> rewritten p before after ->
  calm classes slack p q before y = true -> alarm classes slack q after y = false.
Proof.
  intros classes slack p q before after y Hl Ha Hc. apply not_true_iff_false. intros H.
  apply existsb_exists in H. destruct H as [c [Hin H]]. apply in_labels in Hin.
  unfold calm in Hc. rewrite forallb_labels in Hc. specialize (Hc c Hin). cbv beta in Hc.
  pose proof (frail_is_attacked p before after Ha q Hl) as F.
  pose proof (attacked_standing c q _ _ F). pose proof (attacked_standing y q _ _ F).
  destruct (c =? y); simpl in *; [discriminate H |]. ranks.
Qed.

Theorem unwavering_is_sound : forall classes slack places p before after, In p places ->
  (forall q, In q places -> length q = length before) -> unchanged classes p before ->
  (forall q, In q places -> calm classes slack p q before (vote classes before) = true) -> rewritten p before after ->
  vote classes after = vote classes before /\ alert classes slack places after = false.
Proof.
  intros classes slack places p before after Hp Hl Hu Hc Ha. split; [apply Hu; assumption |].
  apply not_true_iff_false. intros H. apply existsb_exists in H. destruct H as [q [Hq H]].
  rewrite (Hu after Ha) in H. rewrite (calm_is_silent classes slack p q before after) in H; auto. discriminate H.
Qed.

(** Giving all that it touches to [c] is the worst that a patch at [p] can do to [y] without [q]. *)
Lemma elected_without : forall c k p q ballots, length p = length ballots -> length q = length ballots ->
  standing k q (elect c p ballots) =
    kept k q (frail p ballots) + (if k =? c then doubtful q (frail p ballots) else 0).
Proof.
  intros c k p. unfold standing, kept, doubtful.
  induction p as [| m p IH]; intros [| n q] [| b ballots] Hp Hq; try discriminate Hp; try discriminate Hq; simpl.
  - destruct (k =? c); reflexivity.
  - injection Hp as Hp. injection Hq as Hq. rewrite IH by assumption. destruct n; simpl; [destruct (k =? c); lia |].
    destruct (m || fragile b) eqn:E.
    + unfold gives, names. simpl. rewrite orb_false_r. destruct (k =? c); lia.
    + unfold gives, names. simpl. destruct (k =? c); lia.
Qed.

Theorem unwavering_is_tight : forall classes slack places p q ballots, length p = length ballots -> In q places ->
  length q = length ballots -> vote classes ballots < classes ->
  calm classes slack p q ballots (vote classes ballots) = false ->
  exists after, rewritten p ballots after /\
    (vote classes after <> vote classes ballots \/ alert classes slack places after = true).
Proof.
  intros classes slack places p q ballots Hp Hin Hq Hy Hc.
  assert (Hex : exists c, c < classes /\ c <> vote classes ballots /\
    beats c (kept c q (frail p ballots) + doubtful q (frail p ballots)) (vote classes ballots)
      (kept (vote classes ballots) q (frail p ballots) + slack) = true).
  { unfold calm in Hc. apply not_true_iff_false in Hc. rewrite forallb_labels in Hc.
    destruct (existsb (fun c => negb (c =? vote classes ballots) &&
      beats c (kept c q (frail p ballots) + doubtful q (frail p ballots)) (vote classes ballots)
        (kept (vote classes ballots) q (frail p ballots) + slack)) (labels classes)) eqn:E.
    - apply existsb_exists in E. destruct E as [c [Hc' E]]. apply in_labels in Hc'. exists c.
      apply andb_true_iff in E. destruct E as [E1 E2]. split; [assumption |]. split; [lia | assumption].
    - exfalso. apply Hc. intros c Hc'. apply not_true_iff_false in E.
      destruct (N.eqb_spec c (vote classes ballots)) as [| Hne]; [reflexivity |]. simpl. apply negb_true_iff.
      apply not_true_iff_false. intros B. apply E. apply existsb_exists. exists c.
      split; [apply in_labels; assumption |]. rewrite B. lia. }
  destruct Hex as [c [Hc' [Hne B]]]. exists (elect c p ballots). split; [apply elect_is_attack; assumption |].
  destruct (N.eq_dec (vote classes (elect c p ballots)) (vote classes ballots)) as [E | E]; [right | left; assumption].
  unfold alert. apply existsb_exists. exists q. split; [assumption |]. rewrite E.
  apply existsb_exists. exists c. split; [apply in_labels; assumption |]. rewrite !elected_without by assumption.
  rewrite N.eqb_refl. assert (F : (vote classes ballots =? c) = false) by lia. rewrite F, N.add_0_r.
  assert (G : (c =? vote classes ballots) = false) by lia. rewrite G. exact B.
Qed.

(** Without slack and fragile ballots nothing is in between: whoever can change the label has an alert with it. *)
Lemma solid_standing : forall c p before after, rewritten p before after ->
  (forall b, In b before -> fragile b = false) -> standing c p after = standing c p before.
Proof.
  intros c p before after H. unfold standing. induction H as [| b p before after Hb H IH | m b any p before after Hm Hw H IH];
    intros Hs; simpl; [reflexivity | |].
  - rewrite IH by (intros; apply Hs; right; assumption). reflexivity.
  - rewrite IH by (intros; apply Hs; right; assumption). specialize (Hs b (or_introl eq_refl)).
    destruct Hm as [-> | Hm]; [reflexivity | congruence].
Qed.

Theorem alert_at_will : forall classes places p before after, 0 < classes -> In p places ->
  (forall b, In b before -> fragile b = false) -> alert classes 0 places before = false -> rewritten p before after ->
  vote classes after <> vote classes before -> alert classes 0 places after = true.
Proof.
  intros classes places p before after Hpos Hp Hs Hquiet Ha Hne.
  unfold alert. apply existsb_exists. exists p. split; [assumption |].
  apply existsb_exists. exists (vote classes before). split; [apply in_labels, vote_in_range; assumption |].
  assert (Hno : beats (vote classes after) (standing (vote classes after) p before) (vote classes before)
    (standing (vote classes before) p before + 0) = false).
  { apply not_true_iff_false. intros B. apply not_true_iff_false in Hquiet. apply Hquiet.
    apply existsb_exists. exists p. split; [assumption |].
    apply existsb_exists. exists (vote classes after). split; [apply in_labels, vote_in_range; assumption |].
    rewrite B. lia. }
  rewrite !(solid_standing _ p before after) by assumption. ranks.
Qed.

(** ** Ensembles of voting defenders and pools *)

(** What a member may say without [w], on an image that is attacked at [p]. *)
Definition provoked_on (q : question) (p w : pixel) (d : defender) (c : label) : bool :=
  match d with
  | (Voting cuts, Ballots ballots) =>
      may_say_without (classes q) 0 (marks_of q (Voting cuts) w) (frail (marks_of q (Voting cuts) p) ballots) c
  | _ => true
  end.

(** UNWAVERING: no patch changes the label or raises an alert. *)
Definition unwavering (q : question) (ensemble : list defender) (y : label) : Prop :=
  forall p after, In p (placements (image q) (patch q)) -> ensemble_attacked q p ensemble after ->
  ensemble_label q after = y /\ ensemble_alert q after = false.

(** What voting members say without [w]. *)
Definition says_without (q : question) (w : pixel) (d : defender) : label :=
  match d with
  | (Voting cuts, Ballots ballots) => without (classes q) (marks_of q (Voting cuts) w) ballots
  | _ => 0
  end.

Lemma attacked_votes : forall q p d d', is_voting d -> attacked q p d d' -> is_voting d'.
Proof.
  intros q p [k r] [k' r'] Hv [Hk Ha]. simpl in Hk. subst k'. destruct k, r; try contradiction Hv.
  destruct r'; simpl in Ha; try contradiction Ha. exact I.
Qed.

Lemma provoked_is_sound : forall q p w d d', asked_well q -> fitting q d -> is_voting d -> attacked q p d d' ->
  says_without q w d' < classes q /\ provoked_on q p w d (says_without q w d') = true.
Proof.
  intros q p w [k r] [k' r'] [_ Hpos] Hf Hv [Hk Ha]. simpl in Hk. subst k'.
  destruct k as [cuts | |], r as [ballots | |]; try contradiction Hv.
  destruct r' as [ballots' | |]; simpl in Ha; try contradiction Ha. cbn [says_without provoked_on].
  split; [apply plurality_wins; assumption |]. apply without_is_sound; [assumption |].
  apply frail_is_attacked; [assumption |]. exact (eq_trans (marks_length q cuts w) (eq_sym Hf)).
Qed.

Lemma provoked_is_tight : forall q p w d c, asked_well q -> fitting q d -> is_voting d -> c < classes q ->
  provoked_on q p w d c = true -> exists d', attacked q p d d' /\ says_without q w d' = c.
Proof.
  intros q p w [k r] c [_ Hpos] Hf Hv Hc H. destruct k as [cuts | |], r as [ballots | |]; try contradiction Hv.
  assert (L : forall x, length (marks_of q (Voting cuts) x) = length ballots)
    by (intros x; exact (eq_trans (marks_length q cuts x) (eq_sym Hf))).
  exists (Voting cuts, Ballots (elect c (marks_of q (Voting cuts) p) ballots)). split.
  - split; [reflexivity |]. apply elect_is_attack. apply L.
  - cbn [says_without]. apply plurality_is. split; [assumption |]. intros k Hk Hne.
    rewrite !elected_without by apply L. rewrite N.eqb_refl. assert (E : (k =? c) = false) by lia. rewrite E.
    cbn [provoked_on] in H. unfold may_say_without in H. rewrite forallb_labels in H. specialize (H k Hk). cbv beta in H.
    rewrite E in H. simpl in H. rewrite N.add_0_r in *. exact H.
Qed.

(** The alert of an ensemble that votes: somewhere the plurality of what is said without a part is another label. *)
Lemma voting_alert : forall q ensemble, asked_well q -> Forall is_voting ensemble ->
  ensemble_alert q ensemble =
    existsb (fun w => negb (verdict (classes q) (map (says_without q w) ensemble) =? ensemble_label q ensemble))
      (placements (image q) (patch q)).
Proof.
  intros q ensemble [_ Hpos] Hv. unfold ensemble_alert. induction (placements (image q) (patch q)) as [| w rest IH];
    [reflexivity |]. simpl. rewrite IH. do 2 f_equal.
  rewrite <- alert_where_all_say; [| assumption | apply verdict_in_range; assumption |].
  - f_equal. rewrite map_map. apply map_ext_in. intros d Hd. rewrite Forall_forall in Hv. specialize (Hv d Hd).
    destruct d as [[| |] [| |]]; try contradiction Hv. reflexivity.
  - apply Forall_forall. intros c Hc. apply in_map_iff in Hc. destruct Hc as [d [<- Hd]].
    rewrite Forall_forall in Hv. specialize (Hv d Hd). destruct d as [[| |] [| |]]; try contradiction Hv.
    apply plurality_wins. assumption.
Qed.

(** THEOREM. Unwavering iff recovered, and for all pairs of placements every pick of what may be said without the one,
    by a patch at the other, has the plurality y. *)
Theorem unwavering_is_exact : forall q ensemble y, asked_well q -> Forall (fitting q) ensemble ->
  Forall is_voting ensemble ->
  (unwavering q ensemble y <->
   recovers q ensemble y /\
   forall p w, In p (placements (image q) (patch q)) -> In w (placements (image q) (patch q)) ->
     majority_invariant (classes q) (map (provoked_on q p w) ensemble) y).
Proof.
  intros q ensemble y Hq Hf Hv. split.
  - intros H. split; [intros p after Hp Ha; apply (H p after Hp Ha) |].
    intros p w Hp Hw pick Hpick.
    assert (Hafter : exists after, ensemble_attacked q p ensemble after /\ map (says_without q w) after = pick).
    { clear H. revert Hv pick Hpick. induction Hf as [| d ensemble Hd Hf IH]; intros Hv pick Hpick.
      - inversion Hpick. exists []. split; constructor.
      - inversion Hpick as [| ? c ? rest [Hc Hr] Hrest]; subst. inversion Hv as [| ? ? Hvd Hve]; subst.
        destruct (IH Hve rest Hrest) as [after [Ha Hl]].
        destruct (provoked_is_tight q p w d c Hq Hd Hvd Hc Hr) as [d' [Hd' Hl']].
        exists (d' :: after). split; [constructor; assumption | cbn [map]; rewrite Hl, Hl'; reflexivity]. }
    destruct Hafter as [after [Ha <-]]. destruct (H p after Hp Ha) as [E Hno].
    rewrite voting_alert in Hno; [| assumption |].
    + destruct (N.eq_dec (verdict (classes q) (map (says_without q w) after)) y) as [| Hne]; [assumption |].
      exfalso. apply not_true_iff_false in Hno. apply Hno. apply existsb_exists. exists w. split; [assumption |].
      rewrite E. apply negb_true_iff. apply N.eqb_neq. assumption.
    + clear - Ha Hv. induction Ha; inversion Hv; subst; constructor; eauto using attacked_votes.
  - intros [Hr H] p after Hp Ha. pose proof (Hr p after Hp Ha) as E. split; [exact E |].
    rewrite voting_alert; [| assumption |].
    + apply not_true_iff_false. intros Halert. apply existsb_exists in Halert. destruct Halert as [w [Hw Halert]].
      apply negb_true_iff, N.eqb_neq in Halert. apply Halert. rewrite E. apply (H p w Hp Hw).
      clear - Ha Hv Hf Hq. induction Ha; inversion Hv; inversion Hf; subst; simpl; constructor.
      * apply provoked_is_sound; assumption.
      * apply IHHa; assumption.
    + clear - Ha Hv. induction Ha; inversion Hv; subst; constructor; eauto using attacked_votes.
Qed.
