(** Several defenders: Theorems 1 and 2, and the closed form.  (docs/soundness.md, "An ensemble")

    A reach is any set of labels, given as a function to yes or no; nothing is asked about how it was found. *)
From Majorcert Require Export Plurality.

Fixpoint count {A : Type} (f : A -> bool) (l : list A) : N :=
  match l with
  | [] => 0
  | x :: l => (if f x then 1 else 0) + count f l
  end.

(** How many defenders say [c], and the label of the ensemble: the plurality of what they say. *)
Definition said (c : label) (pick : list label) : N := count (N.eqb c) pick.
Definition verdict (classes : N) (pick : list label) : label := plurality classes (fun c => said c pick).

(** One label from each reach. *)
Definition picked (classes : N) : list (label -> bool) -> list label -> Prop :=
  Forall2 (fun reach c => c < classes /\ reach c = true).

(** Theorem 2's condition: every pick has the plurality [y]. *)
Definition majority_invariant (classes : N) (reaches : list (label -> bool)) (y : label) : Prop :=
  forall pick, picked classes reaches pick -> verdict classes pick = y.

(** The reach is {y}. *)
Definition only (classes : N) (y : label) (reach : label -> bool) : bool :=
  forallb (fun c => eqb (reach c) (c =? y)) (labels classes).

(** The closed form: for every c other than y,  #{reach = {y}}  >=  #{c in reach} + [y > c]. *)
Definition closed_form (classes : N) (reaches : list (label -> bool)) (y : label) : bool :=
  forallb (fun c => (c =? y) ||
      (count (fun reach => reach c) reaches + (if c <? y then 1 else 0) <=? count (only classes y) reaches))
    (labels classes).

(** * Proofs *)

Lemma only_iff : forall classes y reach, only classes y reach = true <->
  forall c, c < classes -> reach c = (c =? y).
Proof.
  intros. unfold only. rewrite forallb_labels.
  split; intros H c Hc; specialize (H c Hc); apply eqb_true_iff; assumption.
Qed.

Lemma verdict_in_range : forall classes pick, 0 < classes -> verdict classes pick < classes.
Proof. intros. apply plurality_wins. assumption. Qed.

(** Theorem 2, for anything that answers with a label of its reach. *)
Theorem theorem2 : forall classes reaches y, majority_invariant classes reaches y ->
  forall answers, Forall2 (fun reach c => c < classes /\ reach c = true) reaches answers ->
  verdict classes answers = y.
Proof. intros classes reaches y H answers Ha. apply H. exact Ha. Qed.

Lemma pick_bounds : forall classes reaches pick y c, picked classes reaches pick -> y < classes -> c <> y ->
  count (only classes y) reaches <= said y pick /\ said c pick <= count (fun reach => reach c) reaches.
Proof.
  intros classes reaches pick y c H Hy Hne. unfold said.
  induction H as [| reach d reaches pick [Hd Hr] H IH]; simpl; [lia |].
  destruct (only classes y reach) eqn:O.
  - rewrite only_iff in O. rewrite O in Hr by assumption. assert (d = y) by lia. subst d.
    rewrite N.eqb_refl. destruct (reach c); destruct (c =? y) eqn:E; lia.
  - destruct (N.eq_dec c d) as [<- |].
    + rewrite Hr. destruct (y =? c), (c =? c); lia.
    + destruct (reach c), (y =? d), (c =? d) eqn:E; lia.
Qed.

(** The pick that hurts [y] most, for the rival [c]: all say [c] who can, and the others something else than [y]. *)
Definition against (classes : N) (y c : label) (reach : label -> bool) : label :=
  if reach c then c
  else match find (fun d => reach d && negb (d =? y)) (labels classes) with
       | Some d => d
       | None => y
       end.

Definition has_a_label (classes : N) (reach : label -> bool) : Prop := exists c, c < classes /\ reach c = true.

Lemma against_picked : forall classes y c reach, c < classes -> has_a_label classes reach ->
  against classes y c reach < classes /\ reach (against classes y c reach) = true.
Proof.
  intros classes y c reach Hc [d [Hd Hr]]. unfold against. destruct (reach c) eqn:E; [auto |].
  destruct (find _ _) eqn:F.
  - apply find_some in F. destruct F as [Hin F]. apply in_labels in Hin. lia.
  - pose proof (find_none _ _ F d (proj2 (in_labels _ _) Hd)) as G. simpl in G. rewrite Hr in G.
    assert (d = y) by lia. subst. auto.
Qed.

Lemma against_counts : forall classes y c reach, y < classes -> c < classes -> c <> y -> has_a_label classes reach ->
  (y =? against classes y c reach) = only classes y reach /\ (c =? against classes y c reach) = reach c.
Proof.
  intros classes y c reach Hy Hc Hne Hl. pose proof (against_picked classes y c reach Hc Hl) as [Ha Hr].
  unfold against in *. destruct (reach c) eqn:E.
  - split; [| lia]. destruct (only classes y reach) eqn:O; [| lia]. rewrite only_iff in O.
    rewrite O in E by assumption. lia.
  - destruct (find _ _) as [d |] eqn:F.
    + apply find_some in F. destruct F as [Hin F]. apply in_labels in Hin. split.
      * destruct (only classes y reach) eqn:O; [| lia]. rewrite only_iff in O. rewrite O in F by assumption. lia.
      * destruct (N.eqb_spec c d); [subst; rewrite E in F; discriminate F | lia].
    + split; [| lia]. rewrite N.eqb_refl. symmetry. apply only_iff. intros e He.
      pose proof (find_none _ _ F e (proj2 (in_labels _ _) He)) as G. simpl in G.
      destruct (N.eqb_spec e y); [subst; assumption |]. destruct (reach e); [discriminate G | reflexivity].
Qed.

(** The closed form is Theorem 2, no more and no less, for any number of defenders and labels. *)
Theorem closed_form_is_theorem2 : forall classes reaches y, y < classes ->
  Forall (has_a_label classes) reaches ->
  (closed_form classes reaches y = true <-> majority_invariant classes reaches y).
Proof.
  intros classes reaches y Hy Hl. split.
  - intros H pick Hp. apply plurality_is. split; [assumption |]. intros c Hc Hne.
    unfold closed_form in H. rewrite forallb_labels in H. specialize (H c Hc). cbv beta in H.
    pose proof (pick_bounds classes reaches pick y c Hp Hy Hne).
    destruct (c <? y) eqn:E in H; ranks.
  - intros H. apply forallb_labels. intros c Hc. destruct (N.eqb_spec c y) as [| Hne]; [reflexivity |]. simpl.
    assert (Hp : picked classes reaches (map (against classes y c) reaches)).
    { clear H. induction Hl; simpl; constructor; auto. apply against_picked; assumption. }
    specialize (H _ Hp).
    assert (Hpos : 0 < classes) by lia.
    pose proof (plurality_wins classes (fun c => said c (map (against classes y c) reaches)) Hpos) as Hw.
    unfold verdict in H.
    assert (Hs : said y (map (against classes y c) reaches) = count (only classes y) reaches /\
                 said c (map (against classes y c) reaches) = count (fun reach => reach c) reaches).
    { clear Hw H Hp. unfold said. induction Hl as [| reach reaches Hr Hl IH]; simpl; [auto |].
      destruct (against_counts classes y c reach Hy Hc Hne Hr) as [-> ->]. destruct IH as [-> ->]. auto. }
    destruct Hs as [Hs1 Hs2].
    destruct (plurality_wins classes (fun k => said k (map (against classes y c) reaches)) Hpos) as [_ Hb].
    rewrite H in Hb. specialize (Hb c Hc Hne). cbv beta in Hb. rewrite Hs1, Hs2 in Hb.
    destruct (c <? y) eqn:E; ranks.
Qed.

(** The closed form is enough whatever the reaches are. *)
Lemma closed_form_suffices : forall classes reaches y, y < classes ->
  closed_form classes reaches y = true -> majority_invariant classes reaches y.
Proof.
  intros classes reaches y Hy H pick Hp. apply plurality_is. split; [assumption |]. intros c Hc Hne.
  unfold closed_form in H. rewrite forallb_labels in H. specialize (H c Hc). cbv beta in H.
  pose proof (pick_bounds classes reaches pick y c Hp Hy Hne).
  destruct (c <? y) eqn:E in H; ranks.
Qed.

Lemma only_and_others : forall classes y c reaches, y < classes -> c < classes -> c <> y ->
  count (only classes y) reaches + count (fun reach => reach c) reaches <= N.of_nat (length reaches).
Proof.
  intros classes y c reaches Hy Hc Hne. induction reaches as [| reach reaches IH]; simpl count; [simpl; lia |].
  replace (N.of_nat (length (reach :: reaches))) with (1 + N.of_nat (length reaches)) by (simpl length; lia).
  destruct (only classes y reach) eqn:O; destruct (reach c) eqn:E; try lia.
  rewrite only_iff in O. rewrite O in E by assumption. lia.
Qed.

(** Theorem 1: more than half of the defenders can be made to say nothing but [y]. Then Theorem 2 holds. *)
Theorem theorem1_implies_theorem2 : forall classes reaches y, y < classes ->
  N.of_nat (length reaches) < 2 * count (only classes y) reaches -> closed_form classes reaches y = true.
Proof.
  intros classes reaches y Hy H. apply forallb_labels. intros c Hc.
  destruct (N.eqb_spec c y) as [| Hne]; [reflexivity |]. simpl.
  pose proof (only_and_others classes y c reaches Hy Hc Hne). destruct (c <? y); lia.
Qed.

(** Smaller reaches have fewer picks. *)
Theorem smaller_reaches_keep_theorem2 : forall classes reaches larger y,
  Forall2 (fun r l => forall c, c < classes -> r c = true -> l c = true) reaches larger ->
  majority_invariant classes larger y -> majority_invariant classes reaches y.
Proof.
  intros classes reaches larger y Hs H pick Hp. apply H. clear H. revert pick Hp.
  induction Hs as [| r l reaches larger Hrl Hs IH]; intros pick Hp; inversion Hp; subst; constructor; [| apply IH;
    assumption].
  intuition.
Qed.
