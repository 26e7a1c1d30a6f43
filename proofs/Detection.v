(** Detection by one voting defender or pool, with a slack.  (docs/soundness.md, "Detection")

    The label cannot be changed without an alert. *)
From Majorcert Require Export Votes.

(** The points of [c] in the ballots that the patch does not touch. Who predicts does not know which are fragile. *)
Definition standing (c : label) := total (fun mark b => if mark then 0 else gives c b).

(** What the defender says without the touched ballots. *)
Definition without (classes : N) (marks : list bool) (ballots : list ballot) : label :=
  plurality classes (fun c => standing c marks ballots).

(** Points of fragile ballots that the patch does not touch: possible votes for any rival. *)
Definition doubtful := total (fun mark b => if mark then 0 else if fragile b then worth b else 0).

(** At one placement: some other label's standing beats that of the label and the slack. *)
Definition alarm (classes slack : N) (marks : list bool) (ballots : list ballot) (y : label) : bool :=
  existsb (fun c => negb (c =? y) && beats c (standing c marks ballots) y (standing y marks ballots + slack))
    (labels classes).

(** An image raises an alert iff there is an alarm at some placement. *)
Definition alert (classes slack : N) (places : list (list bool)) (ballots : list ballot) : bool :=
  existsb (fun marks => alarm classes slack marks ballots (vote classes ballots)) places.

(** At one placement: the label beats every other, with all the slack and all doubtful ballots against it. *)
Definition leads (classes slack : N) (marks : list bool) (ballots : list ballot) (y : label) : bool :=
  forallb (fun c => (c =? y) ||
      beats y (kept y marks ballots) c (kept c marks ballots + doubtful marks ballots + slack))
    (labels classes).

(** * Proofs *)

Lemma attacked_standing : forall c marks before after, rewritten marks before after ->
  kept c marks before <= standing c marks after <= kept c marks before + doubtful marks before.
Proof.
  intros c marks before after H. unfold kept, standing, doubtful. induction H; simpl.
  - lia.
  - rewrite H. lia.
  - pose proof (gives_most c any). destruct mark; simpl; [lia |]. destruct H as [H | H]; [discriminate H |].
    rewrite H. lia.
Qed.

(** Whatever a patch does at a placement where the label leads: the label stays, or there is an alert. *)
Theorem detection_with_slack : forall classes slack places marks before after y, 0 < classes -> y < classes ->
  In marks places -> leads classes slack marks before y = true -> rewritten marks before after ->
  vote classes after = y \/ alert classes slack places after = true.
Proof.
  intros classes slack places marks before after y Hpos Hy Hin Hl Ha.
  destruct (N.eq_dec (vote classes after) y) as [| Hne]; [auto |]. right.
  unfold alert. apply existsb_exists. exists marks. split; [assumption |].
  apply existsb_exists. exists y. split; [apply in_labels; assumption |].
  unfold leads in Hl. rewrite forallb_labels in Hl.
  specialize (Hl (vote classes after) (vote_in_range classes after Hpos)). cbv beta in Hl.
  pose proof (attacked_standing y marks before after Ha).
  pose proof (attacked_standing (vote classes after) marks before after Ha). ranks.
Qed.

(** ** The set of labels that the defender may say without the patch, for ensembles *)
Definition may_say_without (classes slack : N) (marks : list bool) (ballots : list ballot) (c : label) : bool :=
  forallb (fun k => (k =? c) ||
      beats c (kept c marks ballots + doubtful marks ballots + slack) k (kept k marks ballots))
    (labels classes).

Theorem without_is_sound : forall classes slack marks before after, 0 < classes -> rewritten marks before after ->
  may_say_without classes slack marks before (without classes marks after) = true.
Proof.
  intros classes slack marks before after Hpos Ha. apply forallb_labels. intros k Hk.
  destruct (N.eqb_spec k (without classes marks after)) as [| Hne]; [reflexivity |].
  destruct (plurality_wins classes (fun c => standing c marks after) Hpos) as [_ Hb].
  fold (without classes marks after) in Hb.
  specialize (Hb k Hk Hne). cbv beta in Hb.
  pose proof (attacked_standing k marks before after Ha).
  pose proof (attacked_standing (without classes marks after) marks before after Ha). ranks.
Qed.

(** For one defender the two ways to say it are one: the label leads iff nothing else may be said. *)
Theorem leads_iff_only : forall classes slack marks ballots y, y < classes ->
  (leads classes slack marks ballots y = true <->
   forall c, c < classes -> may_say_without classes slack marks ballots c = (c =? y)).
Proof.
  intros classes slack marks ballots y Hy. unfold leads. rewrite forallb_labels.
  assert (Hpos : 0 < classes) by lia.
  destruct (plurality_wins classes (fun c => kept c marks ballots) Hpos) as [Hz Hb].
  set (z := plurality classes (fun c => kept c marks ballots)) in *. cbv beta in Hb.
  assert (Hself : may_say_without classes slack marks ballots z = true).
  { apply forallb_labels. intros k Hk. destruct (N.eqb_spec k z) as [| Hne]; [reflexivity |].
    specialize (Hb k Hk Hne). ranks. }
  split.
  - intros H c Hc. apply eq_true_iff_eq. rewrite N.eqb_eq. unfold may_say_without. rewrite forallb_labels. split.
    + intros Hm. destruct (N.eq_dec c y) as [| Hne]; [assumption |]. specialize (H c Hc). specialize (Hm y Hy). ranks.
    + intros -> k Hk. specialize (H k Hk). ranks.
  - intros H c Hc. destruct (N.eqb_spec c y) as [| Hne]; [reflexivity |]. simpl.
    assert (z = y) by (specialize (H z Hz); rewrite Hself in H; lia).
    pose proof (H c Hc) as Hm. assert (E : (c =? y) = false) by lia. rewrite E in Hm.
    destruct (beats y _ c _) eqn:B; [reflexivity |]. rewrite <- Hm. apply forallb_labels. intros k Hk.
    destruct (N.eqb_spec k c) as [| Hkc]; [reflexivity |]. simpl.
    destruct (N.eq_dec k y) as [-> | Hky]; [ranks |].
    assert (beats y (kept y marks ballots) k (kept k marks ballots) = true) by (rewrite <- H0; apply Hb; congruence).
    ranks.
Qed.

(** With no slack and no fragile ballot: certified iff the label is what the defender says without the patch. *)
Theorem no_slack : forall classes marks ballots y, y < classes -> length marks = length ballots ->
  (forall b, In b ballots -> fragile b = false) ->
  (leads classes 0 marks ballots y = true <-> without classes marks ballots = y).
Proof.
  intros classes marks ballots y Hy Hlen Hsolid.
  assert (E : doubtful marks ballots = 0 /\ forall c, kept c marks ballots = standing c marks ballots).
  { unfold doubtful, kept, standing. revert ballots Hlen Hsolid.
    induction marks as [| m marks IH]; intros [| b ballots] Hlen Hsolid; try discriminate Hlen; [simpl; auto |].
    injection Hlen as Hlen. destruct (IH ballots Hlen) as [H1 H2]; [intros; apply Hsolid; right; assumption |].
    split; simpl; [| intros c]; rewrite (Hsolid b (or_introl eq_refl)); [rewrite H1 | rewrite H2]; destruct m;
      reflexivity. }
  destruct E as [E1 E2]. unfold leads. rewrite forallb_labels. rewrite E1. split.
  - intros H. apply plurality_is. split; [assumption |]. intros c Hc Hne. specialize (H c Hc). cbv beta in H.
    rewrite !E2 in H. ranks.
  - intros H c Hc. destruct (N.eqb_spec c y) as [| Hne]; [reflexivity |].
    assert (Hpos : 0 < classes) by lia.
    destruct (plurality_wins classes (fun c => standing c marks ballots) Hpos) as [_ Hb].
    fold (without classes marks ballots) in Hb. rewrite H in Hb. specialize (Hb c Hc Hne). cbv beta in Hb.
    rewrite !E2. ranks.
Qed.
