(** One voting defender, or a pool of them.  (docs/soundness.md, "Reach", "One defender", "Votes that numerics cannot
    move", "Pooled votes")

    A vote is worth a whole number of points: one for a defender that votes alone. *)
From Majorcert Require Export Geometry.

Record ballot := Ballot {
  worth : N;            (** points of each vote of this ballot *)
  fragile : bool;       (** may be anything on another set-up, wherever the patch is *)
  says : list label     (** the labels it votes for: none, one or several *)
}.

Definition names (c : label) (b : ballot) : bool := existsb (N.eqb c) (says b).
Definition gives (c : label) (b : ballot) : N := if names c b then worth b else 0.

(** The points of [c] in all ballots. *)
Fixpoint points (c : label) (ballots : list ballot) : N :=
  match ballots with
  | [] => 0
  | b :: ballots => gives c b + points c ballots
  end.

Definition vote (classes : N) (ballots : list ballot) : label := plurality classes (fun c => points c ballots).

(** What an attack may do. A mark says that the patch touches this ballot. Ballots that are neither touched nor fragile
    stay; all others become any ballots, of the same worth. *)
Inductive rewritten : list bool -> list ballot -> list ballot -> Prop :=
  | none_left : rewritten [] [] []
  | stays : forall b marks before after,
      fragile b = false -> rewritten marks before after -> rewritten (false :: marks) (b :: before) (b :: after)
  | becomes : forall mark b any marks before after,
      mark = true \/ fragile b = true -> worth any = worth b -> rewritten marks before after ->
      rewritten (mark :: marks) (b :: before) (any :: after).

(** Sums over the ballots that are touched or fragile, and over the others. *)
Fixpoint total (f : bool -> ballot -> N) (marks : list bool) (ballots : list ballot) : N :=
  match marks, ballots with
  | mark :: marks, b :: ballots => f mark b + total f marks ballots
  | _, _ => 0
  end.

Definition kept (c : label) := total (fun mark b => if mark || fragile b then 0 else gives c b).
Definition loose := total (fun mark b => if mark || fragile b then worth b else 0).

(** [c] is in reach iff kept(c) + loose beats kept(k) for every other label k. *)
Definition reach (classes : N) (marks : list bool) (ballots : list ballot) (c : label) : bool :=
  forallb (fun k => (k =? c) || beats c (kept c marks ballots + loose marks ballots) k (kept k marks ballots))
    (labels classes).

(** The paper's Definition 1: the clean label, and every label that beats it alone. *)
Definition paper_reach (classes : N) (marks : list bool) (ballots : list ballot) (c : label) : bool :=
  let clean := vote classes ballots in
  (c =? clean) || beats c (kept c marks ballots + loose marks ballots) clean (kept clean marks ballots).

(** The margin: [most] is the most points that any placement touches. *)
Definition touched_points := total (fun mark b => if mark then worth b else 0).
Definition solid (c : label) (ballots : list ballot) : N :=
  kept c (map (fun _ => false) ballots) ballots.
Definition fragile_points (ballots : list ballot) : N := loose (map (fun _ => false) ballots) ballots.

Definition margin (classes most : N) (ballots : list ballot) : bool :=
  let clean := vote classes ballots in
  forallb (fun c => (c =? clean) ||
      (2 * most + fragile_points ballots + solid c ballots + (if c <? clean then 1 else 0) <=? solid clean ballots))
    (labels classes).

(** * Proofs *)

(** A defender that votes alone: the points of a label are the number of ballots that name it. *)
Theorem points_are_votes : forall c ballots, (forall b, In b ballots -> worth b = 1) ->
  points c ballots = N.of_nat (length (filter (names c) ballots)).
Proof.
  intros c ballots. induction ballots as [| b ballots IH]; intros H; [reflexivity |].
  simpl. rewrite IH by (intros; apply H; right; assumption).
  unfold gives. rewrite (H b (or_introl eq_refl)). destruct (names c b); simpl length; lia.
Qed.

Lemma gives_most : forall c b, gives c b <= worth b.
Proof. intros. unfold gives. destruct (names c b); lia. Qed.

Lemma attack_bounds : forall marks before after c, rewritten marks before after ->
  kept c marks before <= points c after <= kept c marks before + loose marks before.
Proof.
  intros marks before after c H. unfold kept, loose. induction H; simpl.
  - lia.
  - rewrite H. lia.
  - assert (E : mark || fragile b = true) by lia. rewrite E. pose proof (gives_most c any). lia.
Qed.

(** The attack that helps [c] most: every ballot that is free becomes {c}. *)
Fixpoint elect (c : label) (marks : list bool) (ballots : list ballot) : list ballot :=
  match marks, ballots with
  | mark :: marks, b :: ballots =>
      (if mark || fragile b then Ballot (worth b) (fragile b) [c] else b) :: elect c marks ballots
  | _, _ => []
  end.

Lemma elect_is_attack : forall c marks ballots, length marks = length ballots ->
  rewritten marks ballots (elect c marks ballots).
Proof.
  intros c marks. induction marks as [| m marks IH]; intros [| b ballots] H; try discriminate H; simpl.
  - constructor.
  - injection H as H. destruct (m || fragile b) eqn:E.
    + apply becomes; [lia | reflexivity | auto].
    + apply orb_false_iff in E. destruct E as [-> E]. apply stays; auto.
Qed.

Lemma elect_points : forall c k marks ballots, length marks = length ballots ->
  points k (elect c marks ballots) = kept k marks ballots + (if k =? c then loose marks ballots else 0).
Proof.
  intros c k marks. unfold kept, loose. induction marks as [| m marks IH]; intros [| b ballots] H; try discriminate H.
  - simpl. destruct (k =? c); reflexivity.
  - injection H as H. simpl. rewrite IH by assumption.
    destruct (m || fragile b) eqn:E.
    + replace (gives k _) with (if k =? c then worth b else 0); [destruct (k =? c); lia |].
      unfold gives, names. simpl. rewrite orb_false_r. reflexivity.
    + destruct (k =? c); lia.
Qed.

Lemma reach_iff : forall classes marks ballots c, reach classes marks ballots c = true <->
  forall k, k < classes -> k <> c ->
    beats c (kept c marks ballots + loose marks ballots) k (kept k marks ballots) = true.
Proof.
  intros. unfold reach. rewrite forallb_labels. split.
  - intros H k Hk Hne. specialize (H k Hk). simpl in H. lia.
  - intros H k Hk. destruct (N.eq_dec k c) as [-> | Hne]; [lia |]. rewrite H by assumption. lia.
Qed.

(** Whatever the attack, the defender says a label that is in reach. *)
Theorem reach_is_sound : forall classes marks before after, 0 < classes -> rewritten marks before after ->
  reach classes marks before (vote classes after) = true.
Proof.
  intros classes marks before after Hc Ha. apply reach_iff. intros k Hk Hne.
  destruct (plurality_wins classes (fun c => points c after) Hc) as [_ Hwin].
  specialize (Hwin k Hk Hne). fold (vote classes after) in *.
  pose proof (attack_bounds _ _ _ (vote classes after) Ha). pose proof (attack_bounds _ _ _ k Ha).
  simpl in Hwin. ranks.
Qed.

(** A label that is in reach is elected by some attack. *)
Theorem reach_is_tight : forall classes marks ballots c, c < classes -> length marks = length ballots ->
  reach classes marks ballots c = true ->
  exists after, rewritten marks ballots after /\ vote classes after = c.
Proof.
  intros classes marks ballots c Hc Hlen Hr. exists (elect c marks ballots).
  split; [apply elect_is_attack; assumption |].
  apply plurality_is. split; [assumption |]. intros k Hk Hne.
  rewrite !elect_points by assumption. rewrite N.eqb_refl.
  assert (E : (k =? c) = false) by lia. rewrite E, N.add_0_r.
  exact (proj1 (reach_iff _ _ _ _) Hr k Hk Hne).
Qed.

(** Exact reach: a label is in reach iff some attack elects it. *)
Theorem exact_reach : forall classes marks ballots c, c < classes -> length marks = length ballots ->
  (reach classes marks ballots c = true <-> exists after, rewritten marks ballots after /\ vote classes after = c).
Proof.
  intros classes marks ballots c Hc Hlen. split.
  - apply reach_is_tight; assumption.
  - intros [after [Ha <-]]. apply reach_is_sound; [lia | assumption].
Qed.

(** Leaving the image alone is an attack, so the clean label is in reach. *)
Lemma leaving_alone : forall marks ballots, length marks = length ballots -> rewritten marks ballots ballots.
Proof.
  induction marks as [| m marks IH]; intros [| b ballots] H; try discriminate H; [constructor |].
  injection H as H. destruct (m || fragile b) eqn:E.
  - apply becomes; [lia | reflexivity | auto].
  - apply orb_false_iff in E. destruct E as [-> E]. apply stays; auto.
Qed.

Lemma vote_in_range : forall classes ballots, 0 < classes -> vote classes ballots < classes.
Proof. intros. apply plurality_wins. assumption. Qed.

Theorem clean_label_in_reach : forall classes marks ballots, 0 < classes -> length marks = length ballots ->
  reach classes marks ballots (vote classes ballots) = true.
Proof. intros. apply reach_is_sound; [| apply leaving_alone]; assumption. Qed.

Theorem paper_reach_contains_reach : forall classes marks ballots c, 0 < classes ->
  reach classes marks ballots c = true -> paper_reach classes marks ballots c = true.
Proof.
  intros classes marks ballots c Hpos H. unfold paper_reach.
  destruct (N.eq_dec c (vote classes ballots)) as [-> | Hne]; [lia |].
  rewrite (proj1 (reach_iff _ _ _ _) H); [lia | apply vote_in_range; assumption | congruence].
Qed.

(** ** One defender is certified at a placement iff its reach there is its label alone *)
Definition unchanged (classes : N) (marks : list bool) (ballots : list ballot) : Prop :=
  forall after, rewritten marks ballots after -> vote classes after = vote classes ballots.

Theorem certified_iff_reach_is_label : forall classes marks ballots, 0 < classes -> length marks = length ballots ->
  (unchanged classes marks ballots <->
   forall c, c < classes -> reach classes marks ballots c = (c =? vote classes ballots)).
Proof.
  intros classes marks ballots Hpos Hlen. split.
  - intros H c Hc. apply eq_true_iff_eq. rewrite N.eqb_eq, exact_reach by assumption. split.
    + intros [after [Ha <-]]. auto.
    + intros ->. exists ballots. split; [apply leaving_alone; assumption | reflexivity].
  - intros H after Ha. apply N.eqb_eq. rewrite <- H by (apply vote_in_range; assumption).
    apply reach_is_sound; assumption.
Qed.

(** ** The margin *)
Lemma margin_sums : forall c marks ballots, length marks = length ballots ->
  solid c ballots <= kept c marks ballots + (loose marks ballots - fragile_points ballots) /\
  fragile_points ballots <= loose marks ballots <= touched_points marks ballots + fragile_points ballots /\
  kept c marks ballots <= solid c ballots.
Proof.
  intros c marks ballots H. unfold solid, fragile_points, kept, loose, touched_points.
  revert ballots H. induction marks as [| m marks IH]; intros [| b ballots] H; try discriminate H; simpl; [lia |].
  injection H as H. specialize (IH ballots H). pose proof (gives_most c b).
  destruct m, (fragile b); simpl; lia.
Qed.

(** With the margin, even the paper's reach is the label alone, wherever no more than [most] points are touched. *)
Theorem margin_implies_local : forall classes most marks ballots c, 0 < classes -> length marks = length ballots ->
  touched_points marks ballots <= most -> margin classes most ballots = true -> c < classes ->
  paper_reach classes marks ballots c = (c =? vote classes ballots).
Proof.
  intros classes most marks ballots c Hpos Hlen Hmost Hm Hc. unfold paper_reach.
  destruct (c =? vote classes ballots) eqn:E; [reflexivity |]. simpl.
  unfold margin in Hm. cbv zeta in Hm. rewrite forallb_labels in Hm. specialize (Hm c Hc). cbv beta in Hm.
  rewrite E in Hm.
  pose proof (margin_sums c marks ballots Hlen). pose proof (margin_sums (vote classes ballots) marks ballots Hlen).
  destruct (c <? vote classes ballots) eqn:F in Hm; ranks.
Qed.

Theorem margin_certifies : forall classes most marks ballots, 0 < classes -> length marks = length ballots ->
  touched_points marks ballots <= most -> margin classes most ballots = true -> unchanged classes marks ballots.
Proof.
  intros classes most marks ballots Hpos Hlen Hmost Hm after Ha. apply N.eqb_eq.
  rewrite <- (margin_implies_local classes most marks) by (try apply vote_in_range; assumption).
  apply paper_reach_contains_reach; [| apply reach_is_sound]; assumption.
Qed.

(** ** Smaller patches touch fewer ballots, and reach fewer labels *)
Lemma fewer_sums : forall c marks more ballots, fewer marks more ->
  kept c more ballots <= kept c marks ballots /\ loose marks ballots <= loose more ballots /\
  kept c marks ballots + loose marks ballots <= kept c more ballots + loose more ballots.
Proof.
  intros c marks more ballots H. unfold kept, loose. revert ballots.
  induction H as [| m n marks more Hmn Hf IH]; intros [| b ballots]; simpl; try lia.
  specialize (IH ballots). pose proof (gives_most c b).
  destruct m, n, (fragile b); simpl in *; try lia; specialize (Hmn eq_refl); discriminate.
Qed.

Theorem smaller_reaches_fewer : forall classes marks more ballots c, fewer marks more ->
  reach classes marks ballots c = true -> reach classes more ballots c = true.
Proof.
  intros classes marks more ballots c Hf H. apply reach_iff. intros k Hk Hne.
  pose proof (proj1 (reach_iff _ _ _ _) H k Hk Hne) as B.
  pose proof (fewer_sums c marks more ballots Hf). pose proof (fewer_sums k marks more ballots Hf). ranks.
Qed.

Lemma paper_smaller : forall classes marks more ballots c, fewer marks more ->
  paper_reach classes marks ballots c = true -> paper_reach classes more ballots c = true.
Proof.
  intros classes marks more ballots c Hf H. unfold paper_reach in *. cbv zeta in *.
  pose proof (fewer_sums c marks more ballots Hf). pose proof (fewer_sums (vote classes ballots) marks more ballots Hf).
  destruct (c =? vote classes ballots); [reflexivity |]. simpl in *. ranks.
Qed.

(** ** Fragile ballots: the same promise on another set-up *)

(** On another set-up every solid ballot of the clean image is as recorded, and a patch changes what it touches. *)
Inductive repainted : list bool -> list ballot -> list ballot -> Prop :=
  | all_painted : repainted [] [] []
  | same : forall b marks before after, repainted marks before after ->
    repainted (false :: marks) (b :: before) (b :: after)
  | painted : forall b any marks before after, worth any = worth b -> repainted marks before after ->
      repainted (true :: marks) (b :: before) (any :: after).

Definition solid_ballots_hold (recorded there : list ballot) : Prop :=
  Forall2 (fun b b' => worth b' = worth b /\ (fragile b = false -> b' = b)) recorded there.

Lemma elsewhere_is_an_attack : forall recorded there marks after,
  solid_ballots_hold recorded there -> repainted marks there after -> rewritten marks recorded after.
Proof.
  intros recorded there marks after H. revert marks after.
  induction H as [| b b' recorded there [Hw Hb] Hf IH]; intros marks after Hr; inversion Hr; subst; [constructor | |].
  - destruct (fragile b) eqn:E.
    + apply becomes; auto.
    + rewrite Hb in * by reflexivity. apply stays; auto.
  - apply becomes; [auto | congruence | auto].
Qed.

Theorem fragile_ballots : forall classes recorded there marks after,
  unchanged classes marks recorded -> solid_ballots_hold recorded there -> repainted marks there after ->
  vote classes after = vote classes recorded.
Proof. intros classes recorded there marks after H Hs Hr. apply H. eapply elsewhere_is_an_attack; eassumption. Qed.
