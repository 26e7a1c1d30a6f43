(** Robust masking (PatchGuard).  (docs/soundness.md, "Masking instead of counting")

    Every ablation gives every label some points. A window is a set of ablations: those that the mask patch touches at
    one placement. The loudest window of each label is taken from it, if it holds more than a share T of its points; the
    label that is left with most is said. *)
From Majorcert Require Export Geometry.

(** One row for each ablation, in it the points of each label. *)
Definition scores := list (list N).
Definition of_label (c : label) (row : list N) : N := nth (N.to_nat c) row 0.

(** The points of [c] in the ablations that are marked. *)
Fixpoint inside (c : label) (marks : list bool) (rows : scores) : N :=
  match marks, rows with
  | mark :: marks, row :: rows => (if mark then of_label c row else 0) + inside c marks rows
  | _, _ => 0
  end.

Definition everywhere (rows : scores) : list bool := map (fun _ => true) rows.
Definition outside (marks : list bool) : list bool := map negb marks.
Fixpoint less (marks taken : list bool) : list bool :=
  match marks, taken with
  | m :: marks, t :: taken => (m && negb t) :: less marks taken
  | _, _ => []
  end.

Definition largest (l : list N) : N := fold_right N.max 0 l.
Definition loudest (windows : list (list bool)) (c : label) (rows : scores) : N :=
  largest (map (fun window => inside c window rows) windows).

(** What [c] is left with, and what the defender says. The share T is a fraction, (numerator, denominator). *)
Definition left_to (share : N * N) (windows : list (list bool)) (c : label) (rows : scores) : N :=
  let all := inside c (everywhere rows) rows in
  let loud := loudest windows c rows in
  if all * fst share <? loud * snd share then all - loud else all.
Definition masked_label (classes : N) (share : N * N) (windows : list (list bool)) (rows : scores) : label :=
  plurality classes (fun c => left_to share windows c rows).

(** An attack gives the ablations of the window any points. *)
Inductive rescored : list bool -> scores -> scores -> Prop :=
  | no_rows : rescored [] [] []
  | same_row : forall row marks before after, rescored marks before after ->
      rescored (false :: marks) (row :: before) (row :: after)
  | any_row : forall row any marks before after, rescored marks before after ->
      rescored (true :: marks) (row :: before) (any :: after).

(** The points that stay, and the most of them in any one window. *)
Definition stay (c : label) (marks : list bool) (rows : scores) : N := inside c (outside marks) rows.
Definition stay_loudest (windows : list (list bool)) (c : label) (marks : list bool) (rows : scores) : N :=
  largest (map (fun window => inside c (less window marks) rows) windows).

(** K / (1 - T), rounded down. *)
Definition at_most (share : N * N) (points : N) : N := points * snd share / (snd share - fst share).

(** The clean label, and every label whose upper bound beats the lower bound of the clean one. *)
Definition guarded_reach (classes : N) (share : N * N) (windows : list (list bool)) (marks : list bool) (rows : scores)
    (c : label) : bool :=
  let g := masked_label classes share windows rows in
  (c =? g) ||
  beats c (at_most share (stay c marks rows)) g (stay g marks rows - stay_loudest windows g marks rows).

(** * Proofs *)

Lemma largest_above : forall l x, In x l -> x <= largest l.
Proof.
  induction l as [| y l IH]; intros x H; [contradiction H |].
  destruct H as [-> | H]; simpl; [| specialize (IH x H)]; lia.
Qed.

Lemma largest_below : forall l bound, (forall x, In x l -> x <= bound) -> largest l <= bound.
Proof.
  induction l as [| y l IH]; simpl; intros bound H; [lia |].
  specialize (IH bound (fun x Hx => H x (or_intror Hx))). specialize (H y (or_introl eq_refl)). lia.
Qed.

Lemma whole : forall c marks before after, rescored marks before after ->
  inside c (everywhere after) after = stay c marks before + inside c marks after.
Proof. intros c marks before after H. unfold stay. induction H; simpl in *; lia. Qed.

Lemma window_bound : forall c marks before after window, rescored marks before after ->
  inside c window after <= inside c (less window marks) before + inside c marks after.
Proof.
  intros c marks before after window H. revert window.
  induction H; intros [| w window]; simpl; try lia; specialize (IHrescored window); destruct w; simpl; lia.
Qed.

(** Theorem 3: bounds on what each label is left with after any attack. *)
Theorem left_at_most : forall share windows c marks before after, fst share < snd share -> In marks windows ->
  rescored marks before after -> left_to share windows c after <= at_most share (stay c marks before).
Proof.
  intros [n d] windows c marks before after Hshare Hin H. unfold left_to, at_most. cbn [fst snd] in *.
  rewrite (whole c marks before after H).
  assert (L : inside c marks after <= loudest windows c after).
  { apply largest_above. apply in_map_iff. eauto. }
  set (k := stay c marks before) in *. set (x := inside c marks after) in *. set (m := loudest windows c after) in *.
  destruct (N.ltb_spec ((k + x) * n) (m * d)) as [Masked | Left]; apply N.div_le_lower_bound; nia.
Qed.

Theorem left_at_least : forall share windows c marks before after, rescored marks before after ->
  stay c marks before - stay_loudest windows c marks before <= left_to share windows c after.
Proof.
  intros share windows c marks before after H. unfold left_to. rewrite (whole c marks before after H).
  assert (loudest windows c after <= stay_loudest windows c marks before + inside c marks after).
  { apply largest_below. intros x Hx. apply in_map_iff in Hx. destruct Hx as [window [<- Hw]].
    pose proof (window_bound c marks before after window H).
    assert (inside c (less window marks) before <= stay_loudest windows c marks before); [| lia].
    apply largest_above. apply in_map_iff. eauto. }
  cbv zeta. destruct (_ <? _); lia.
Qed.

Theorem guarded_reach_is_sound : forall classes share windows marks before after, 0 < classes ->
  fst share < snd share -> In marks windows -> rescored marks before after ->
  guarded_reach classes share windows marks before (masked_label classes share windows after) = true.
Proof.
  intros classes share windows marks before after Hpos Hshare Hin H. unfold guarded_reach. cbv zeta.
  set (g := masked_label classes share windows before). set (c := masked_label classes share windows after).
  destruct (N.eqb_spec c g) as [| Hne]; [reflexivity |]. simpl.
  destruct (plurality_wins classes (fun c => left_to share windows c after) Hpos) as [_ Hb].
  fold (masked_label classes share windows after) c in Hb.
  assert (Hg : g < classes) by (apply plurality_wins; assumption).
  specialize (Hb g Hg (not_eq_sym Hne)). cbv beta in Hb.
  pose proof (left_at_most share windows c marks before after Hshare Hin H).
  pose proof (left_at_least share windows g marks before after H). ranks.
Qed.

(** A patch within the mask patch touches only ablations of the window of a placement of the mask patch. *)
Lemma rescored_fewer : forall marks window before after, fewer marks window -> rescored marks before after ->
  rescored window before after.
Proof.
  intros marks window before after Hf H. revert window Hf.
  induction H; intros window Hf; inversion Hf; subst; [constructor | |].
  - destruct y; constructor; auto.
  - match goal with H : true = true -> _ |- _ => rewrite (H eq_refl) end. constructor; auto.
Qed.
