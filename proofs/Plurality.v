(** The tie rule, and the winner of a vote.  (docs/soundness.md, "Words")

    Labels, votes and points are whole numbers, [N]: 0, 1, 2, ... in binary. *)
From Coq Require Export List Bool NArith Lia ZifyBool.
Export ListNotations.
Open Scope N_scope.

Definition label := N.

(** 0, 1, ..., n - 1 *)
Definition range (n : N) : list N := map N.of_nat (seq 0 (N.to_nat n)).

(** The labels of a classifier that tells [classes] classes apart. *)
Definition labels (classes : N) : list label := range classes.

(** Label [a] with [u] votes beats label [b] with [v]: more votes win, and on a tie the smaller label. *)
Definition beats (a : label) (u : N) (b : label) (v : N) : bool := (v <? u) || ((u =? v) && (a <? b)).

(** [y] is the winner: it beats every other label. *)
Definition wins (classes : N) (votes : label -> N) (y : label) : Prop :=
  y < classes /\ forall c, c < classes -> c <> y -> beats y (votes y) c (votes c) = true.

(** The winner, found by looking at one label after the other. *)
Fixpoint best (votes : label -> N) (so_far : label) (rest : list label) : label :=
  match rest with
  | [] => so_far
  | c :: rest => best votes (if beats c (votes c) so_far (votes so_far) then c else so_far) rest
  end.

Definition plurality (classes : N) (votes : label -> N) : label := best votes 0 (labels classes).

(** * Proofs *)

Ltac ranks := unfold beats in *; lia.

Lemma in_range : forall n k, In k (range n) <-> k < n.
Proof.
  intros n k. unfold range. rewrite in_map_iff. split.
  - intros [i [<- Hi]]. apply in_seq in Hi. lia.
  - intros Hk. exists (N.to_nat k). split; [lia | apply in_seq; lia].
Qed.

Lemma in_labels : forall n c, In c (labels n) <-> c < n.
Proof. exact in_range. Qed.

Lemma forallb_labels : forall n f, forallb f (labels n) = true <-> (forall c, c < n -> f c = true).
Proof.
  intros n f. rewrite forallb_forall. split; intros H c Hc; apply H; apply in_labels; exact Hc.
Qed.

Lemma best_among : forall votes rest y, In (best votes y rest) (y :: rest).
Proof.
  induction rest as [| c rest IH]; intros y; simpl; [auto |].
  destruct (beats c (votes c) y (votes y)); [destruct (IH c) | destruct (IH y)]; auto.
Qed.

Lemma best_beats : forall votes rest y c, In c (y :: rest) -> c <> best votes y rest ->
  beats (best votes y rest) (votes (best votes y rest)) c (votes c) = true.
Proof.
  intros votes rest. induction rest as [| d rest IH]; intros y c Hc Hne; simpl in *; [intuition congruence |].
  set (z := if beats d (votes d) y (votes y) then d else y) in *.
  set (w := best votes z rest) in *.
  assert (Hz : z = w \/ beats w (votes w) z (votes z) = true).
  { destruct (N.eq_dec z w); [auto |]. right. apply IH; [left; reflexivity | assumption]. }
  destruct Hc as [<- | [<- | Hc]].
  - subst z. destruct (beats d (votes d) y (votes y)) eqn:E; destruct Hz as [Hz | Hz]; try rewrite <- Hz in *;
      try congruence; ranks.
  - subst z. destruct (beats d (votes d) y (votes y)) eqn:E; destruct Hz as [Hz | Hz]; try rewrite <- Hz in *;
      try congruence; ranks.
  - apply IH; [right; assumption | assumption].
Qed.

(** There is a winner, the function finds it, and there is only one. *)
Theorem plurality_wins : forall classes votes, 0 < classes -> wins classes votes (plurality classes votes).
Proof.
  intros classes votes H. unfold plurality. split.
  - destruct (best_among votes (labels classes) 0) as [<- | Hin]; [exact H | apply in_labels; exact Hin].
  - intros c Hc Hne. apply best_beats; [right; apply in_labels; exact Hc | exact Hne].
Qed.

Theorem winner_is_unique : forall classes votes y z, wins classes votes y -> wins classes votes z -> y = z.
Proof.
  intros classes votes y z [Hy By] [Hz Bz]. destruct (N.eq_dec y z) as [| Hne]; [assumption |].
  specialize (By z Hz (not_eq_sym Hne)). specialize (Bz y Hy Hne). ranks.
Qed.

Lemma plurality_is : forall classes votes y, wins classes votes y -> plurality classes votes = y.
Proof.
  intros classes votes y H. apply (winner_is_unique classes votes); [| assumption].
  apply plurality_wins. destruct H. lia.
Qed.

Lemma plurality_ext : forall classes f g, (forall c, c < classes -> f c = g c) -> 0 < classes ->
  plurality classes f = plurality classes g.
Proof.
  intros classes f g H Hpos. apply plurality_is. destruct (plurality_wins classes g Hpos) as [Hlt Hb].
  split; [assumption |]. intros c Hc Hne. rewrite !H by assumption. apply Hb; assumption.
Qed.
