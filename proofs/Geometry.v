(** Pixels, patches, placements, regions, and what is touched.  (docs/soundness.md, "The threat" and "Words")

    Everything is a list of pixels. No formula says what is touched: two lists share a pixel, or they do not. *)
From Majorcert Require Export Plurality.

(** (row, column) *)
Notation pixel := (N * N)%type.

(** (height, width) of an image or of a patch *)
Notation size := (N * N)%type.

Definition same_pixel (p q : pixel) : bool := (fst p =? fst q) && (snd p =? snd q).
Definition holds (region : list pixel) (p : pixel) : bool := existsb (same_pixel p) region.

(** All pixels whose row is one of [rows] and whose column is one of [columns]. *)
Definition crossing (rows columns : list N) : list pixel := list_prod rows columns.

Definition from (start length : N) : list N := map (fun k => start + k) (range length).
Definition rectangle (corner : pixel) (extent : size) : list pixel :=
  crossing (from (fst corner) (fst extent)) (from (snd corner) (snd extent)).

(** Every corner (top, left) at which the patch lies inside the image. *)
Definition placements (image patch : size) : list pixel :=
  list_prod (range (fst image + 1 - fst patch)) (range (snd image + 1 - snd patch)).

(** A patch has a pixel, and fits in the image. *)
Definition fits (image patch : size) : bool :=
  (0 <? fst patch) && (0 <? snd patch) && (fst patch <=? fst image) && (snd patch <=? snd image).

(** ** Strategies: runs of [length] pixels that start at every [stride]-th pixel and wrap around *)
Inductive strategy :=
  | Rows (length stride : N)
  | Columns (length stride : N)
  | Blocks (length stride : N).

Definition starts (n stride : N) : list N := filter (fun start => start mod stride =? 0) (range n).
Definition run (n length start : N) : list N := map (fun k => (start + k) mod n) (range length).
Definition runs (n length stride : N) : list (list N) := map (run n length) (starts n stride).

Definition row_runs (image : size) (s : strategy) : list (list N) :=
  match s with
  | Rows length stride | Blocks length stride => runs (fst image) length stride
  | Columns _ _ => [range (fst image)]
  end.

Definition column_runs (image : size) (s : strategy) : list (list N) :=
  match s with
  | Columns length stride | Blocks length stride => runs (snd image) length stride
  | Rows _ _ => [range (snd image)]
  end.

(** What each ablation shows, in the order of the ballots: row start by row start, column start by column start. *)
Definition regions (image : size) (s : strategy) : list (list pixel) :=
  flat_map (fun rows => map (crossing rows) (column_runs image s)) (row_runs image s).

(** ** Touched, and covered *)
Definition shares_a_pixel (patch region : list pixel) : bool := existsb (holds region) patch.
Definition hidden_by (patch mask : list pixel) : bool := forallb (holds mask) patch.

(** For each ablation: does the patch at this placement touch it? *)
Definition touched (image patch : size) (s : strategy) (placement : pixel) : list bool :=
  map (shares_a_pixel (rectangle placement patch)) (regions image s).

(** ** Mask sets: squares of (patch + stride - 1), so that each placement of the patch is hidden by one of them *)
Definition mask_starts (n extent stride : N) : list N :=
  filter (fun start => (start mod stride =? 0) && (start <? n - extent)) (range n) ++ [n - extent].
Definition mask_extent (n length stride : N) : N := N.min n (length + stride - 1).

Definition masks (image guarded : size) (stride : N) : list (list pixel) :=
  let height := mask_extent (fst image) (fst guarded) stride in
  let width := mask_extent (snd image) (snd guarded) stride in
  map (fun corner => rectangle corner (height, width))
    (list_prod (mask_starts (fst image) height stride) (mask_starts (snd image) width stride)).

(** For each mask: does it hide all of the patch at this placement? *)
Definition covered (patch : size) (masks : list (list pixel)) (placement : pixel) : list bool :=
  map (hidden_by (rectangle placement patch)) masks.

(** * Proofs *)

Lemma holds_in : forall region p, holds region p = true <-> In p region.
Proof.
  intros region [r c]. unfold holds. rewrite existsb_exists. split.
  - intros [[r' c'] [Hin Heq]]. unfold same_pixel in Heq. simpl in Heq.
    assert (r = r') by lia. assert (c = c') by lia. subst. exact Hin.
  - intros Hin. exists (r, c). split; [exact Hin | unfold same_pixel; simpl; lia].
Qed.

Lemma in_from : forall start length k, In k (from start length) <-> start <= k < start + length.
Proof.
  intros. unfold from. rewrite in_map_iff. split.
  - intros [i [<- Hi]]. apply in_range in Hi. lia.
  - intros H. exists (k - start). split; [lia | apply in_range; lia].
Qed.

Lemma in_rectangle : forall corner extent p, In p (rectangle corner extent) <->
  fst corner <= fst p < fst corner + fst extent /\ snd corner <= snd p < snd corner + snd extent.
Proof.
  intros corner extent [r c]. unfold rectangle, crossing. rewrite in_prod_iff, !in_from. reflexivity.
Qed.

(** Every placement is looked at: the list holds each corner at which the patch lies inside the image, and no other. *)
Theorem placements_are_all : forall image patch top left, fits image patch = true ->
  (In (top, left) (placements image patch) <-> top + fst patch <= fst image /\ left + snd patch <= snd image).
Proof.
  intros image patch top left Hfits. unfold fits in Hfits. unfold placements.
  rewrite in_prod_iff, !in_range. lia.
Qed.

(** The same, from the pixels: all of a placed patch lies in the image. *)
Theorem placements_lie_inside : forall image patch placement p, fits image patch = true ->
  In placement (placements image patch) -> In p (rectangle placement patch) -> fst p < fst image /\ snd p < snd image.
Proof.
  intros image patch [top left] p Hfits Hin Hp. apply placements_are_all in Hin; [| assumption].
  apply in_rectangle in Hp. simpl in *. lia.
Qed.

Lemma shares_iff : forall a b, shares_a_pixel a b = true <-> exists p, In p a /\ In p b.
Proof.
  intros. unfold shares_a_pixel. rewrite existsb_exists. split; intros [p [Ha Hb]]; exists p; split; auto;
    apply holds_in; exact Hb.
Qed.

Lemma hidden_iff : forall a b, hidden_by a b = true <-> incl a b.
Proof.
  intros. unfold hidden_by, incl. rewrite forallb_forall.
  split; intros H p Hp; apply holds_in; auto.
Qed.

(** ** Touched, computed from rows and columns apart: fast, and the same *)
Definition meets (a b : list N) : bool := existsb (fun k => existsb (N.eqb k) b) a.

Definition touched_fast (image patch : size) (s : strategy) (placement : pixel) : list bool :=
  let rows := map (meets (from (fst placement) (fst patch))) (row_runs image s) in
  let columns := map (meets (from (snd placement) (snd patch))) (column_runs image s) in
  flat_map (fun row => map (andb row) columns) rows.

Lemma meets_iff : forall a b, meets a b = true <-> exists k, In k a /\ In k b.
Proof.
  intros. unfold meets. rewrite existsb_exists. split.
  - intros [k [Ha Hb]]. apply existsb_exists in Hb. destruct Hb as [j [Hb Heq]].
    apply N.eqb_eq in Heq. subst. eauto.
  - intros [k [Ha Hb]]. exists k. split; [assumption |]. apply existsb_exists. exists k. split; [assumption | lia].
Qed.

Lemma shares_crossing : forall rows columns rows' columns',
  shares_a_pixel (crossing rows columns) (crossing rows' columns') = meets rows rows' && meets columns columns'.
Proof.
  intros. apply eq_true_iff_eq. rewrite andb_true_iff, shares_iff, !meets_iff. unfold crossing. split.
  - intros [[r c] [Ha Hb]]. apply in_prod_iff in Ha. apply in_prod_iff in Hb. firstorder.
  - intros [[r [Hr Hr']] [c [Hc Hc']]]. exists (r, c). rewrite !in_prod_iff. auto.
Qed.

Lemma map_flat_map : forall (A B C : Type) (f : B -> C) (g : A -> list B) l,
  map f (flat_map g l) = flat_map (fun x => map f (g x)) l.
Proof. induction l as [| x l IH]; simpl; [| rewrite map_app, IH]; reflexivity. Qed.

Lemma flat_map_map : forall (A B C : Type) (f : A -> B) (g : B -> list C) l,
  flat_map g (map f l) = flat_map (fun x => g (f x)) l.
Proof. induction l as [| x l IH]; simpl; [| rewrite IH]; reflexivity. Qed.

Theorem touched_fast_is_touched : forall image patch s placement,
  touched_fast image patch s placement = touched image patch s placement.
Proof.
  intros. unfold touched_fast, touched, regions, rectangle.
  rewrite flat_map_map, map_flat_map. apply flat_map_ext. intros rows.
  rewrite !map_map. apply map_ext. intros columns. symmetry. apply shares_crossing.
Qed.

Lemma touched_length : forall image patch s placement,
  length (touched image patch s placement) = length (regions image s).
Proof. intros. apply map_length. Qed.

(** ** Smaller patches *)

(** A placement of a smaller patch lies inside a placement of a larger one that fits in the image. *)
Theorem smaller_lies_inside : forall image small large placement,
  fits image small = true -> fits image large = true -> fst small <= fst large -> snd small <= snd large ->
  In placement (placements image small) ->
  exists larger, In larger (placements image large) /\ incl (rectangle placement small) (rectangle larger large).
Proof.
  intros image small large [top left] Hs Hl Hh Hw Hin. apply placements_are_all in Hin; [| assumption].
  exists (N.min top (fst image - fst large), N.min left (snd image - snd large)). split.
  - apply placements_are_all; [assumption |]. unfold fits in Hl. lia.
  - intros p Hp. apply in_rectangle in Hp. apply in_rectangle. unfold fits in *. simpl in *. lia.
Qed.

(** [fewer a b]: whatever is marked in [a] is marked in [b]. *)
Definition fewer (a b : list bool) : Prop := Forall2 (fun x y => x = true -> y = true) a b.

Lemma fewer_map : forall (A : Type) (f g : A -> bool) l, (forall x, f x = true -> g x = true) ->
  fewer (map f l) (map g l).
Proof. intros A f g l H. induction l; simpl; constructor; auto. Qed.

Theorem smaller_touches_fewer : forall image small large placement larger s,
  incl (rectangle placement small) (rectangle larger large) ->
  fewer (touched image small s placement) (touched image large s larger).
Proof.
  intros. apply fewer_map. intros region Hr. apply shares_iff in Hr. destruct Hr as [p [Hp Hr]].
  apply shares_iff. exists p. auto.
Qed.

Theorem smaller_is_covered_by_more : forall small large placement larger masks,
  incl (rectangle placement small) (rectangle larger large) ->
  fewer (covered large masks larger) (covered small masks placement).
Proof.
  intros. apply fewer_map. intros mask Hm. apply hidden_iff in Hm. apply hidden_iff.
  intros p Hp. auto.
Qed.
