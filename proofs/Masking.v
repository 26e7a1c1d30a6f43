(** Double masking.  (docs/soundness.md, "Two masks")

    A table has one row for each mask: [entry table i j] is the label under the masks i and j, [entry table i i] under i alone. *)
From Majorcert Require Export Geometry Ensemble.

Definition entry (table : list (list label)) (i j : nat) : label := nth j (nth i table []) 0.
Definition alone (table : list (list label)) : list label :=
  map (fun i => entry table i i) (seq 0 (length table)).

(** The whole row says what the mask alone says. *)
Definition unanimous (table : list (list label)) (i : nat) : bool :=
  forallb (fun j => entry table i j =? entry table i i) (seq 0 (length table)).

(** What the defender says. All masks alone agree: that label. Otherwise, with m their plurality, the first mask that
    alone says another label than m and whose row is unanimous decides; if there is none, m. *)
Definition double_masked (classes : N) (table : list (list label)) : label :=
  let m := verdict classes (alone table) in
  if forallb (fun c => c =? hd 0 (alone table)) (alone table) then hd 0 (alone table)
  else match find (fun i => negb (entry table i i =? m) && unanimous table i) (seq 0 (length table)) with
       | Some i => entry table i i
       | None => m
       end.

(** What an attack may do: with the patch hidden by mask i or by mask j, the view under both is the clean one. A mark
    says that this mask hides the patch. *)
Definition entries_rewritten (marks : list bool) (before after : list (list label)) : Prop :=
  length after = length before /\
  forall i j, (i < length before)%nat -> (j < length before)%nat ->
    nth i marks false = true \/ nth j marks false = true -> entry after i j = entry before i j.

Definition symmetric (table : list (list label)) : Prop :=
  forall i j, (i < length table)%nat -> (j < length table)%nat -> entry table i j = entry table j i.

Definition in_classes (classes : N) (table : list (list label)) : Prop :=
  forall i j, (i < length table)%nat -> (j < length table)%nat -> entry table i j < classes.

(** The first mask that hides the patch and has a unanimous row. *)
Definition proof_row (marks : list bool) (table : list (list label)) : option nat :=
  find (fun i => nth i marks false && unanimous table i) (seq 0 (length table)).

(** {y} if there is one, with y what its row says; every label if not. *)
Definition masking_reach (marks : list bool) (table : list (list label)) (c : label) : bool :=
  match proof_row marks table with
  | Some i => c =? entry table i i
  | None => true
  end.

(** * Proofs *)

Lemma in_rows : forall (table : list (list label)) i, In i (seq 0 (length table)) <-> (i < length table)%nat.
Proof. intros. rewrite in_seq. lia. Qed.

Lemma unanimous_iff : forall table i, unanimous table i = true <->
  forall j, (j < length table)%nat -> entry table i j = entry table i i.
Proof.
  intros. unfold unanimous. rewrite forallb_forall. split; intros H j Hj.
  - apply N.eqb_eq. apply H. apply in_rows. assumption.
  - apply N.eqb_eq. apply H. apply in_rows. assumption.
Qed.

(** A mask that hides the patch and whose row says nothing but y: whatever the attack, the defender says y. *)
Theorem covering_row_decides : forall classes marks before after k,
  symmetric before -> entries_rewritten marks before after ->
  (k < length before)%nat -> nth k marks false = true -> unanimous before k = true ->
  double_masked classes after = entry before k k.
Proof.
  intros classes marks before after k Hs [Hlen Ha] Hk Hm Hu. rewrite unanimous_iff in Hu.
  set (y := entry before k k) in *.
  assert (Hrow : forall j, (j < length after)%nat -> entry after k j = y).
  { intros j Hj. rewrite Hlen in Hj. rewrite Ha by auto. apply Hu. assumption. }
  assert (Hcolumn : forall i, (i < length after)%nat -> entry after i k = y).
  { intros i Hi. rewrite Hlen in Hi. rewrite Ha by auto. rewrite Hs by assumption. apply Hu. assumption. }
  assert (Hk' : (k < length after)%nat) by lia.
  assert (Hin : In y (alone after)).
  { unfold alone. apply in_map_iff. exists k. split; [apply Hrow; assumption | apply in_rows; assumption]. }
  assert (Hmeet : forall i, (i < length after)%nat -> unanimous after i = true -> entry after i i = y).
  { intros i Hi Hi'. rewrite unanimous_iff in Hi'. rewrite <- (Hi' k) by assumption. apply Hcolumn. assumption. }
  unfold double_masked. destruct (forallb (fun c => c =? hd 0 (alone after)) (alone after)) eqn:E.
  - rewrite forallb_forall in E. specialize (E y Hin). lia.
  - destruct (find _ _) as [i |] eqn:F.
    + apply find_some in F. destruct F as [Hi F]. apply in_rows in Hi. apply Hmeet; [assumption | lia].
    + pose proof (find_none _ _ F k (proj2 (in_rows _ _) Hk')) as G. cbv beta in G.
      assert (unanimous after k = true) as U.
      { apply unanimous_iff. intros j Hj. rewrite !Hrow by assumption. reflexivity. }
      rewrite U, Hrow in G by assumption. lia.
Qed.

(** Every label that the defender can be made to say is in its reach. *)
Theorem masking_reach_is_sound : forall classes marks before after,
  symmetric before -> entries_rewritten marks before after ->
  masking_reach marks before (double_masked classes after) = true.
Proof.
  intros classes marks before after Hs Ha. unfold masking_reach. destruct (proof_row marks before) as [k |] eqn:E; [| reflexivity].
  unfold proof_row in E. apply find_some in E. destruct E as [Hk E]. apply in_rows in Hk.
  apply N.eqb_eq. apply (covering_row_decides classes marks); try assumption; lia.
Qed.

Lemma entries_left_alone : forall marks table, entries_rewritten marks table table.
Proof. split; [reflexivity | auto]. Qed.

(** Where the reach is one label, it is the clean one: two covering rows cannot prove different labels. *)
Theorem proved_label_is_clean : forall classes marks table k, symmetric table ->
  (k < length table)%nat -> nth k marks false = true -> unanimous table k = true ->
  entry table k k = double_masked classes table.
Proof. intros. symmetry. eapply covering_row_decides; eauto using entries_left_alone. Qed.

(** The published condition: all pairs say y, and every placement is hidden by some mask. *)
Theorem all_pairs_agree : forall classes marks before after y,
  symmetric before ->
  (forall i j, (i < length before)%nat -> (j < length before)%nat -> entry before i j = y) ->
  (exists k, (k < length before)%nat /\ nth k marks false = true) ->
  entries_rewritten marks before after -> double_masked classes after = y.
Proof.
  intros classes marks before after y Hs Hall [k [Hk Hm]] Ha.
  rewrite <- (Hall k k) by assumption. apply (covering_row_decides classes marks); try assumption.
  apply unanimous_iff. intros j Hj. rewrite !Hall by assumption. reflexivity.
Qed.

(** ** Without: what the first mask that hides the patch says alone; no attack changes that *)
Definition masking_without (marks : list bool) (table : list (list label)) : option label :=
  option_map (fun i => entry table i i) (find (fun i => nth i marks false) (seq 0 (length table))).

Theorem masking_without_stays : forall marks before after, entries_rewritten marks before after ->
  masking_without marks after = masking_without marks before.
Proof.
  intros marks before after [Hlen Ha]. unfold masking_without. rewrite Hlen.
  destruct (find _ _) as [i |] eqn:F; [| reflexivity]. simpl. f_equal.
  apply find_some in F. destruct F as [Hi F]. apply in_rows in Hi. apply Ha; auto.
Qed.

(** ** Smaller patches are hidden by more masks, so less can be said *)
Lemma fewer_nth : forall a b i, fewer a b -> nth i a false = true -> nth i b false = true.
Proof.
  intros a b i H. revert i. induction H; intros [| i]; simpl; auto.
Qed.

Lemma more_marks_less_attack : forall fewer_marks marks before after, fewer fewer_marks marks ->
  entries_rewritten marks before after -> entries_rewritten fewer_marks before after.
Proof.
  intros fewer_marks marks before after Hf [Hlen Ha]. split; [assumption |]. intros i j Hi Hj [H | H];
    apply Ha; auto; [left | right]; eapply fewer_nth; eauto.
Qed.

Theorem smaller_masking_reach : forall fewer_marks marks table c, symmetric table ->
  fewer fewer_marks marks -> masking_reach marks table c = true -> masking_reach fewer_marks table c = true.
Proof.
  intros few marks table c Hs Hf. unfold masking_reach.
  destruct (proof_row few table) as [k |] eqn:K; [| reflexivity].
  unfold proof_row in K. apply find_some in K. destruct K as [Hk K]. apply in_rows in Hk.
  apply andb_true_iff in K. destruct K as [Km Ku].
  unfold proof_row. destruct (find _ _) as [i |] eqn:F.
  - apply find_some in F. destruct F as [Hi F]. apply in_rows in Hi. apply andb_true_iff in F. destruct F as [Fm Fu].
    rewrite (proved_label_is_clean 1 marks table i), (proved_label_is_clean 1 few table k) by assumption. auto.
  - pose proof (find_none _ _ F k (proj2 (in_rows _ _) Hk)) as G. cbv beta in G.
    rewrite Ku, (fewer_nth few marks k Hf Km) in G. discriminate G.
Qed.
