(** Double masking.  (docs/soundness.md, "Two masks")

    A table has one row for each mask: [entry table i j] is the label under the masks i and j, [entry table i i] that
    under i alone. *)
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
    says that this mask hides the patch. Rows may be weak (fragile): entries of which both rows are weak may be
    anything, wherever the patch is. Entries may be missing (no label of the [classes]): they may be anything too. *)
Definition marked_at (marks : list bool) (i : nat) : bool := nth i marks false.
Definition entries_rewritten (classes : N) (marks weak : list bool) (before after : list (list label)) : Prop :=
  length after = length before /\
  forall i j, (i < length before)%nat -> (j < length before)%nat ->
    marked_at marks i = true \/ marked_at marks j = true -> marked_at weak i = false \/ marked_at weak j = false ->
    entry before i j < classes -> entry after i j = entry before i j.

Definition symmetric (table : list (list label)) : Prop :=
  forall i j, (i < length table)%nat -> (j < length table)%nat -> entry table i j = entry table j i.

Definition singles_known (classes : N) (table : list (list label)) : Prop :=
  forall i, (i < length table)%nat -> entry table i i < classes.

Definition in_classes (classes : N) (table : list (list label)) : Prop :=
  forall i j, (i < length table)%nat -> (j < length table)%nat -> entry table i j < classes.

(** The first mask that hides the patch and has a unanimous row that is not weak. *)
Definition proof_row (marks weak : list bool) (table : list (list label)) : option nat :=
  find (fun i => marked_at marks i && (negb (marked_at weak i) && unanimous table i)) (seq 0 (length table)).

(** {y} if there is one, with y what its row says; every label if not. *)
Definition masking_reach (marks weak : list bool) (table : list (list label)) (c : label) : bool :=
  match proof_row marks weak table with
  | Some i => c =? entry table i i
  | None => true
  end.

(** Without: what the first mask that hides the patch says alone; nothing if there is none. *)
Definition first_hiding (marks : list bool) (table : list (list label)) : option nat :=
  find (marked_at marks) (seq 0 (length table)).
Definition masking_without (marks : list bool) (table : list (list label)) : option label :=
  option_map (fun i => entry table i i) (first_hiding marks table).

(** What may be said without: that label, if its row is not weak; every label otherwise. *)
Definition masking_may_say (marks weak : list bool) (table : list (list label)) (c : label) : bool :=
  match first_hiding marks table with
  | Some i => marked_at weak i || (c =? entry table i i)
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

(** A mask that hides the patch, with a solid row that says nothing but y: whatever the attack, the defender says y. *)
Theorem covering_row_decides : forall classes marks weak before after k,
  symmetric before -> singles_known classes before -> entries_rewritten classes marks weak before after ->
    (k < length before)%nat ->
  marked_at marks k = true -> marked_at weak k = false -> unanimous before k = true ->
  double_masked classes after = entry before k k.
Proof.
  intros classes marks weak before after k Hs Hknown [Hlen Ha] Hk Hm Hweak Hu. rewrite unanimous_iff in Hu.
  specialize (Hknown k Hk).
  set (y := entry before k k) in *.
  assert (Hrow : forall j, (j < length after)%nat -> entry after k j = y).
  { intros j Hj. rewrite Hlen in Hj. rewrite Ha; auto. rewrite Hu by assumption. assumption. }
  assert (Hcolumn : forall i, (i < length after)%nat -> entry after i k = y).
  { intros i Hi. rewrite Hlen in Hi. rewrite Ha; auto; rewrite Hs by assumption; [apply Hu | rewrite Hu]; assumption. }
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
Theorem masking_reach_is_sound : forall classes marks weak before after,
  symmetric before -> singles_known classes before -> entries_rewritten classes marks weak before after ->
  masking_reach marks weak before (double_masked classes after) = true.
Proof.
  intros classes marks weak before after Hs Hknown Ha. unfold masking_reach.
  destruct (proof_row marks weak before) as [k |] eqn:E; [| reflexivity].
  unfold proof_row in E. apply find_some in E. destruct E as [Hk E]. apply in_rows in Hk.
  apply N.eqb_eq. apply (covering_row_decides classes marks weak); try assumption; lia.
Qed.

Lemma entries_left_alone : forall classes marks weak table, entries_rewritten classes marks weak table table.
Proof. split; [reflexivity | auto]. Qed.

(** Where the reach is one label, it is the clean one: two covering rows cannot prove different labels. *)
Theorem proved_label_is_clean : forall classes marks weak table k, symmetric table -> singles_known classes table ->
  (k < length table)%nat -> marked_at marks k = true -> marked_at weak k = false -> unanimous table k = true ->
  entry table k k = double_masked classes table.
Proof. intros. symmetry. eapply covering_row_decides; eauto using entries_left_alone. Qed.

(** The published condition: all pairs say y, and every placement is hidden by some mask. *)
Theorem all_pairs_agree : forall classes marks before after y, symmetric before -> y < classes ->
  (forall i j, (i < length before)%nat -> (j < length before)%nat -> entry before i j = y) ->
  (exists k, (k < length before)%nat /\ marked_at marks k = true) ->
  entries_rewritten classes marks [] before after -> double_masked classes after = y.
Proof.
  intros classes marks before after y Hs Hy Hall [k [Hk Hm]] Ha.
  rewrite <- (Hall k k) by assumption. apply (covering_row_decides classes marks []); try assumption.
  - intros i Hi. rewrite Hall by assumption. assumption.
  - unfold marked_at. destruct k; reflexivity.
  - apply unanimous_iff. intros j Hj. rewrite !Hall by assumption. reflexivity.
Qed.

(** No attack changes what is said without, if its row is not weak. *)
Theorem masking_without_stays : forall classes marks weak before after c, singles_known classes before ->
  entries_rewritten classes marks weak before after ->
  masking_without marks after = Some c -> masking_may_say marks weak before c = true.
Proof.
  intros classes marks weak before after c Hknown [Hlen Ha] H.
  unfold masking_without, masking_may_say, first_hiding in *. rewrite Hlen in H.
  destruct (find _ _) as [i |] eqn:F; [| discriminate H]. injection H as <-.
  apply find_some in F. destruct F as [Hi F]. apply in_rows in Hi.
  destruct (marked_at weak i) eqn:W; [reflexivity |]. rewrite Ha by auto. apply N.eqb_refl.
Qed.

(** ** Smaller patches are hidden by more masks, so less can be said *)
Lemma fewer_marked : forall a b i, fewer a b -> marked_at a i = true -> marked_at b i = true.
Proof.
  intros a b i H. revert i. unfold marked_at. induction H; intros [| i]; simpl; auto.
Qed.

Lemma more_marks_less_attack : forall classes few marks weak before after, fewer few marks ->
  entries_rewritten classes marks weak before after -> entries_rewritten classes few weak before after.
Proof.
  intros classes few marks weak before after Hf [Hlen Ha]. split; [assumption |]. intros i j Hi Hj [H | H] Hw Hl;
    apply Ha; auto; [left | right]; eapply fewer_marked; eauto.
Qed.

Theorem smaller_masking_reach : forall classes few marks weak table c, symmetric table -> singles_known classes table ->
  fewer few marks ->
  masking_reach marks weak table c = true -> masking_reach few weak table c = true.
Proof.
  intros classes few marks weak table c Hs Hknown Hf. unfold masking_reach.
  destruct (proof_row few weak table) as [k |] eqn:K; [| reflexivity].
  unfold proof_row in K. apply find_some in K. destruct K as [Hk K]. apply in_rows in Hk.
  apply andb_true_iff in K. destruct K as [Km Ku].
  assert (Kw : marked_at weak k = false /\ unanimous table k = true) by lia. destruct Kw as [Kw Kun].
  unfold proof_row. destruct (find _ _) as [i |] eqn:F.
  - apply find_some in F. destruct F as [Hi F]. apply in_rows in Hi.
    assert (Fw : marked_at marks i = true /\ marked_at weak i = false /\ unanimous table i = true) by lia.
    destruct Fw as [Fm [Fw Fu]].
    rewrite (proved_label_is_clean classes marks weak table i),
      (proved_label_is_clean classes few weak table k) by assumption. auto.
  - pose proof (find_none _ _ F k (proj2 (in_rows _ _) Hk)) as G. cbv beta in G.
    rewrite Ku, (fewer_marked few marks k Hf Km) in G. discriminate G.
Qed.

(** ** Missing entries: where the rows are known to be mixed, nothing depends on what they would say *)
Definition known_mixed (classes : N) (table : list (list label)) (i : nat) : bool :=
  existsb (fun j => (entry table i j <? classes) && negb (entry table i j =? entry table i i)) (seq 0 (length table)).

Definition only_mixed_rows_miss (classes : N) (table : list (list label)) : Prop :=
  forall i j, (i < length table)%nat -> (j < length table)%nat ->
    entry table i j < classes \/ known_mixed classes table i = true.

Definition completes (classes : N) (table full : list (list label)) : Prop :=
  length full = length table /\
  forall i j, (i < length table)%nat -> (j < length table)%nat -> entry table i j < classes ->
    entry full i j = entry table i j.

Lemma same_unanimity : forall classes table full i, singles_known classes table -> only_mixed_rows_miss classes table ->
  completes classes table full -> (i < length table)%nat -> unanimous full i = unanimous table i.
Proof.
  intros classes table full i Hs Hm [Hlen Hc] Hi. apply eq_true_iff_eq. rewrite !unanimous_iff, Hlen.
  rewrite (Hc i i Hi Hi (Hs i Hi)). destruct (known_mixed classes table i) eqn:K.
  - apply existsb_exists in K. destruct K as [j [Hj K]]. apply in_rows in Hj.
    split; intros H; exfalso; specialize (H j Hj); [rewrite Hc in H by (try assumption; lia) |]; lia.
  - assert (Hk : forall j, (j < length table)%nat -> entry full i j = entry table i j).
    { intros j Hj. apply Hc; try assumption. destruct (Hm i j Hi Hj); [assumption | congruence]. }
    split; intros H j Hj; specialize (H j Hj); rewrite Hk in * by assumption; assumption.
Qed.

Theorem missing_entries_do_not_matter : forall classes table full, singles_known classes table ->
  only_mixed_rows_miss classes table -> completes classes table full ->
  double_masked classes full = double_masked classes table.
Proof.
  intros classes table full Hs Hm Hc. pose proof Hc as [Hlen He].
  assert (Ha : alone full = alone table).
  { unfold alone. rewrite Hlen. apply map_ext_in. intros i Hi. apply in_rows in Hi. apply He; auto. }
  unfold double_masked. rewrite Ha, Hlen. destruct (forallb _ _); [reflexivity |].
  assert (E : forall l, (forall i, In i l -> (i < length table)%nat) -> forall m,
            match find (fun i => negb (entry full i i =? m) && unanimous full i) l with
            | Some i => entry full i i | None => m end
          = match find (fun i => negb (entry table i i =? m) && unanimous table i) l with
            | Some i => entry table i i | None => m end).
  { induction l as [| i l IH]; intros Hl m; simpl; [reflexivity |].
    assert (Hi : (i < length table)%nat) by (apply Hl; left; reflexivity).
    rewrite (same_unanimity classes table full i) by assumption. rewrite (He i i Hi Hi (Hs i Hi)).
    destruct (negb (entry table i i =? m) && unanimous table i); [apply He; auto | apply IH; intros; apply Hl; right;
      assumption]. }
  apply E. intros i Hi. apply in_rows. exact Hi.
Qed.
