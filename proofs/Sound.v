(** The checker is right: what it says yes to is promised by the definitions, whatever it is given. *)
From Coq Require Import PeanoNat.
From Majorcert Require Export Check.

(** ** Geometry *)
Lemma ground_fast_is_ground : forall q k p, ground_fast q k p = ground q k p.
Proof.
  intros q [cuts | guarded stride | cut mask share] p; simpl; [| reflexivity | apply touched_fast_is_touched].
  apply flat_map_ext. intros cut. apply touched_fast_is_touched.
Qed.

(** Each placement looks like one of the places that are judged, to every member. *)
Lemma places_stand_for_all : forall q kinds p, In p (placements (image q) (patch q)) ->
  exists r, In r (places q kinds) /\ In r (placements (image q) (patch q)) /\
    forall k, In k kinds -> ground q k p = ground q k r.
Proof.
  intros q kinds p Hp. set (same := fun a b : pixel * list (list bool) => same_list same_marks (snd a) (snd b)).
  assert (Hsame : forall x y : list (list bool), same_list same_marks x y = true <-> x = y).
  { apply same_list_iff. apply same_marks_iff. }
  destruct (distinct_stands_for_all _ same (map (fun p => (p, looks q kinds p)) (placements (image q) (patch q))) []
              (p, looks q kinds p)) as [[r look] [Hr Hs]].
  - intros [x l]. apply Hsame. reflexivity.
  - apply in_map_iff. eauto.
  - exists r. simpl in Hr. pose proof (distinct_among _ _ _ _ _ Hr) as Ha. apply in_map_iff in Ha.
    destruct Ha as [r' [Heq Hin]]. injection Heq as -> <-. split; [| split; [assumption |]].
    + apply in_map_iff. exists (r, looks q kinds r). split; [reflexivity | exact Hr].
    + apply Hsame in Hs. simpl in Hs. intros k Hk. rewrite <- !ground_fast_is_ground.
      unfold looks in Hs. rewrite map_ext_in_iff in Hs. apply Hs. assumption.
Qed.

Lemma places_are_placements : forall q kinds r, In r (places q kinds) -> In r (placements (image q) (patch q)).
Proof.
  intros q kinds r H. apply in_map_iff in H. destruct H as [[r' look] [<- H]]. apply distinct_among in H.
  apply in_map_iff in H. destruct H as [x [Heq Hx]]. injection Heq as <- _. exact Hx.
Qed.

(** ** One member *)
Lemma repeat_untouched : forall ballots, repeat false (length ballots) = untouched ballots.
Proof. unfold untouched. induction ballots; simpl; congruence. Qed.

Lemma counted_at_is : forall q cs cuts ballots ps, length ballots = length (flat_map (regions (image q)) cuts) ->
  counted_at cs
    (changes (repeat false (length (flat_map (regions (image q)) cuts))) (map (ground_fast q (Voting cuts)) ps)) ballots
  = map (fun p => counts cs (ground q (Voting cuts) p) ballots) ps.
Proof.
  intros q cs cuts ballots ps H. unfold counted_at. rewrite start_counts, <- H, repeat_untouched.
  rewrite follow_counts.
  - rewrite map_map. apply map_ext. intros p. rewrite ground_fast_is_ground. reflexivity.
  - unfold untouched. apply map_length.
  - intros marks Hm. apply in_map_iff in Hm. destruct Hm as [p [<- _]]. rewrite ground_fast_is_ground.
    unfold ground. rewrite marks_length. symmetry. exact H.
Qed.

Lemma first_of_map : forall (A : Type) (f g : nat -> bool) (h : nat -> A) l,
  first_of (map f l) (map g l) (map h l) = option_map h (find (fun i => f i && g i) l).
Proof. induction l as [| i l IH]; simpl; [reflexivity |]. destruct (f i && g i); [reflexivity | exact IH]. Qed.

Lemma nth_seq : forall (l : list bool), map (fun i => nth i l false) (seq 0 (length l)) = l.
Proof.
  induction l as [| b l IH]; simpl; [reflexivity |]. f_equal.
  rewrite <- seq_shift, map_map. exact IH.
Qed.

Lemma marked_seq : forall marks n, length marks = n -> map (marked_at marks) (seq 0 n) = marks.
Proof. intros marks n <-. apply nth_seq. Qed.

Lemma map2_marked : forall (A : Type) (f : bool -> nat -> A) marks n, length marks = n ->
  map2 f marks (seq 0 n) = map (fun i => f (marked_at marks i) i) (seq 0 n).
Proof.
  intros A f marks n H. rewrite <- (marked_seq marks n H) at 1. rewrite <- (map_id (seq 0 n)) at 2. apply map2_map.
Qed.

Lemma first_agreed : forall marks weak table, length marks = length table -> length weak = length table ->
  first_of marks (map2 (fun w i => negb w && unanimous table i) weak (seq 0 (length table))) (alone table)
  = option_map (fun i => entry table i i) (proof_row marks weak table).
Proof.
  intros marks weak table H Hw. rewrite map2_marked by assumption. unfold proof_row, alone.
  rewrite <- first_of_map, marked_seq by assumption. reflexivity.
Qed.

Lemma find_always : forall (f : nat -> bool) l, find (fun i => f i && true) l = find f l.
Proof. induction l as [| i l IH]; simpl; [reflexivity |]. rewrite andb_true_r, IH. reflexivity. Qed.

Lemma first_alone : forall marks table, length marks = length table ->
  first_of marks (map (fun _ => true) (alone table)) (alone table) = masking_without marks table.
Proof.
  intros marks table H. unfold masking_without, first_hiding, alone. rewrite map_map.
  rewrite <- (marked_seq marks (length table) H) at 1. rewrite first_of_map, find_always. reflexivity.
Qed.

Lemma first_solid : forall marks weak table, length marks = length table -> length weak = length table ->
  let single := map2 (fun (w : bool) c => if w then None else Some c) weak (alone table) in
  first_of marks (map (fun _ => true) single) single
  = option_map (fun i => if marked_at weak i then None else Some (entry table i i)) (first_hiding marks table).
Proof.
  intros marks weak table H Hw single. unfold single, first_hiding, alone.
  assert (E : map2 (fun (w : bool) c => if w then None else Some c) weak (map (fun i => entry table i i) (seq 0
    (length table)))
            = map (fun i => if marked_at weak i then None else Some (entry table i i)) (seq 0 (length table))).
  { rewrite <- (map2_map _ _ _ _ (fun (w : bool) c => if w then None else Some c)), marked_seq by assumption.
    reflexivity. }
  rewrite E, map_map. rewrite <- (marked_seq marks (length table) H) at 1. rewrite first_of_map, find_always.
  reflexivity.
Qed.

Lemma points_fast_is : forall cs ballots, points_fast cs ballots = map (fun c => points c ballots) cs.
Proof.
  intros cs ballots. unfold points_fast.
  assert (forall f, fold_left (fun votes b => map2 (fun (n : bool) v => if n then v + worth b else v) (map (fun c =>
    names c b) cs) votes)
      ballots (map f cs) = map (fun c => f c + points c ballots) cs) as E.
  { induction ballots as [| b ballots IH]; intros f; simpl; [apply map_ext; intros; lia |].
    rewrite map2_map, IH. apply map_ext. intros c. unfold gives. destruct (names c b); lia. }
  rewrite (E (fun _ => 0)). apply map_ext. intros c. lia.
Qed.

Lemma same_windows : forall q cut mask, 
  let fast := distinct same_marks [] (map (touched_fast (image q) mask cut) (placements (image q) mask)) in
  forall w, In w fast <-> In w (windows q cut mask).
Proof.
  intros q cut mask fast w. unfold fast, windows.
  rewrite (map_ext (touched_fast (image q) mask cut) (touched (image q) mask cut)) by (intros;
    apply touched_fast_is_touched).
  split; [apply distinct_among |]. intros H.
  destruct (distinct_stands_for_all _ same_marks _ [] w (fun x => proj2 (same_marks_iff x x) eq_refl) H) as [y [Hy Hs]].
  apply same_marks_iff in Hs. subst y. exact Hy.
Qed.

Lemma largest_same : forall (A : Type) (f : A -> N) l l', (forall x, In x l <-> In x l') ->
  largest (map f l) = largest (map f l').
Proof.
  assert (forall (A : Type) (f : A -> N) l l', (forall x, In x l -> In x l') ->
    largest (map f l) <= largest (map f l')) as H.
  { intros A f l l' H. apply largest_below. intros x Hx. apply in_map_iff in Hx. destruct Hx as [y [<- Hy]].
    apply largest_above. apply in_map. auto. }
  intros A f l l' E. apply N.le_antisymm; apply H; intros x; apply E.
Qed.

Lemma masked_label_same : forall n share ws ws' rows, 0 < n -> (forall w, In w ws <-> In w ws') ->
  masked_label n share ws rows = masked_label n share ws' rows.
Proof.
  intros n share ws ws' rows Hpos E. apply plurality_ext; [| assumption]. intros c _. unfold left_to, loudest.
  rewrite (largest_same _ (fun window => inside c window rows) ws ws' E). reflexivity.
Qed.

Lemma map_fst_seq : forall (A : Type) (l : list A) first,
  map fst (combine (seq first (length l)) l) = seq first (length l).
Proof. induction l as [| x l IH]; intros first; simpl; [| rewrite IH]; reflexivity. Qed.

Lemma symmetric_fast_is : forall n table, length table = n -> symmetric_fast n table = true -> symmetric table.
Proof.
  unfold symmetric, entry.
  induction n as [| n IH]; intros [| row rows] Hlen H i j Hi Hj; simpl in Hlen, Hi, Hj; try lia.
  cbn [symmetric_fast] in H. apply andb_true_iff in H. destruct H as [H1 H2].
  apply (same_list_iff _ _ N.eqb_eq) in H1.
  assert (First : forall k, nth (S k) row 0 = nth 0 (nth k rows []) 0).
  { intros k. transitivity (nth k (tl row) 0); [destruct row; [destruct k |]; reflexivity |]. rewrite H1.
    transitivity (hd 0 (nth k rows [])); [exact (map_nth (hd 0) rows [] k) | destruct (nth k rows []); reflexivity]. }
  assert (Rest : forall k m, nth (S m) (nth k rows []) 0 = nth m (nth k (map (@tl label) rows) []) 0).
  { intros k m. replace (nth k (map (@tl label) rows) []) with (tl (nth k rows []));
      [destruct (nth k rows []); [destruct m |]; reflexivity | symmetry; exact (map_nth (@tl label) rows [] k)]. }
  destruct i as [| i], j as [| j]; cbn [nth].
  - reflexivity.
  - apply First.
  - symmetry. apply First.
  - rewrite !Rest. apply IH; [rewrite map_length; lia | exact H2 | rewrite map_length; lia | rewrite map_length; lia].
Qed.

Lemma numbered_rows : forall (A : Type) (none : A) l i, (i < length l)%nat -> In (i, nth i l none) (with_number l).
Proof.
  intros A none l i Hi. unfold with_number.
  replace (i, nth i l none) with (nth i (combine (seq 0 (length l)) l) (0%nat, none)).
  - apply nth_In. rewrite combine_length, seq_length, Nat.min_id. assumption.
  - rewrite combine_nth by (rewrite seq_length; reflexivity). rewrite seq_nth by assumption. reflexivity.
Qed.

Lemma table_fits_iff : forall n table, table_fits n table = true ->
  symmetric table /\ singles_known n table /\ only_mixed_rows_miss n table /\
  forall row, In row table -> length row = length table.
Proof.
  intros n table H. unfold table_fits in H. apply andb_true_iff in H. destruct H as [H H3].
  apply andb_true_iff in H. destruct H as [H1 H2]. rewrite forallb_forall in H1, H3.
  assert (L : forall row, In row table -> length row = length table) by (intros row Hr; apply Nat.eqb_eq; auto).
  assert (E : forall i, (i < length table)%nat -> row_fits n i (nth i table []) = true).
  { intros i Hi. exact (H3 _ (numbered_rows _ [] table i Hi)). }
  split; [apply (symmetric_fast_is (length table)); auto |]. split; [| split; [| exact L]].
  - intros i Hi. specialize (E i Hi). apply andb_true_iff in E. destruct E as [E _]. apply N.ltb_lt. exact E.
  - intros i j Hi Hj. specialize (E i Hi). apply andb_true_iff in E. destruct E as [_ E].
    assert (Hrow : length (nth i table []) = length table) by (apply L, nth_In; assumption).
    apply orb_true_iff in E. destruct E as [E | E].
    + left. rewrite forallb_forall in E. apply N.ltb_lt. apply E. apply nth_In. rewrite Hrow. assumption.
    + right. apply existsb_exists in E. destruct E as [c [Hc E]]. apply (In_nth _ _ 0) in Hc.
      destruct Hc as [k [Hk <-]].
      apply existsb_exists. exists k. split; [apply in_rows; rewrite <- Hrow; exact Hk | exact E].
Qed.

Lemma unanimous_row_is : forall table i, (forall row, In row table -> length row = length table) ->
  (i < length table)%nat -> unanimous_row i (nth i table []) = unanimous table i.
Proof.
  intros table i L Hi. assert (Hrow : length (nth i table []) = length table) by (apply L, nth_In; assumption).
  apply eq_true_iff_eq. rewrite unanimous_iff. unfold unanimous_row, entry. cbv zeta. rewrite forallb_forall. split.
  - intros H j Hj. apply N.eqb_eq. apply H. apply nth_In. rewrite Hrow. assumption.
  - intros H c Hc. apply (In_nth _ _ 0) in Hc. destruct Hc as [j [Hj <-]].
    apply N.eqb_eq. apply H. rewrite <- Hrow. assumption.
Qed.

Lemma agreed_is : forall weak table, (forall row, In row table -> length row = length table) ->
  length weak = length table ->
  map2 (fun w row => negb w && unanimous_row (fst row) (snd row)) weak (with_number table)
  = map2 (fun w i => negb w && unanimous table i) weak (seq 0 (length table)).
Proof.
  intros weak table L _.
  assert (E : forall ns weak, (forall n, In n ns -> (fst n < length table)%nat /\ snd n = nth (fst n) table []) ->
            map2 (fun w (row : nat * list label) => negb w && unanimous_row (fst row) (snd row)) weak ns
            = map2 (fun w i => negb w && unanimous table i) weak (map fst ns)).
  { induction ns as [| [i row] ns IH]; intros [| w ws] H; simpl; try reflexivity. f_equal.
    - destruct (H (i, row) (or_introl eq_refl)) as [Hi Hr]. simpl in *. subst row.
      rewrite unanimous_row_is by assumption. reflexivity.
    - apply IH. intros n Hn. apply H. right. assumption. }
  rewrite E.
  - unfold with_number. rewrite map_fst_seq. reflexivity.
  - intros [i row] Hn. apply (In_nth _ _ (0%nat, [])) in Hn. destruct Hn as [k [Hk Hn]]. unfold with_number in *.
    rewrite combine_length, seq_length, Nat.min_id in Hk.
    rewrite combine_nth in Hn by (rewrite seq_length; reflexivity).
    rewrite seq_nth in Hn by assumption. injection Hn as <- <-. simpl. auto.
Qed.

Lemma well_is_fitting : forall q ps d, well q (survey_of q ps (fst d)) d = true -> fitting q d.
Proof.
  intros q ps [[cuts | guarded stride | cut mask share] [ballots | weak table | rows]] H; simpl in H;
    try discriminate H;
    simpl.
  - apply Nat.eqb_eq. exact H.
  - apply andb_true_iff in H. destruct H as [H1 H2]. apply table_fits_iff in H2. destruct H2 as [H2 [H3 _]].
    split; [assumption |]. split; [assumption |]. intros ->. simpl in H1.
    destruct (length (masks _ _ _)); discriminate H1.
  - apply andb_true_iff in H. destruct H as [H1 H2]. apply Nat.eqb_eq in H2. apply andb_true_iff in H1.
    destruct H1 as [H0 H1]. apply N.ltb_lt in H1. auto.
Qed.

Lemma marks_of_masks : forall q ps guarded stride weak table p,
  well q (survey_of q ps (DoubleMasking guarded stride)) (DoubleMasking guarded stride, Pairs weak table) = true ->
  length (covered (patch q) (masks (image q) guarded stride) p) = length table /\ length weak = length table.
Proof.
  intros q ps guarded stride weak table p H. simpl in H. unfold covered. rewrite map_length.
  repeat (apply andb_true_iff in H; destruct H as [H ?]). apply Nat.eqb_eq in H.
  match goal with E : (length weak =? _)%nat = true |- _ => apply Nat.eqb_eq in E; rewrite E end. auto.
Qed.

Lemma rows_are_whole : forall q ps guarded stride weak table,
  well q (survey_of q ps (DoubleMasking guarded stride)) (DoubleMasking guarded stride, Pairs weak table) = true ->
  forall row, In row table -> length row = length table.
Proof.
  intros q ps guarded stride weak table H. simpl in H. apply andb_true_iff in H. destruct H as [_ H].
  apply table_fits_iff in H. apply H.
Qed.

Lemma label_fast_is : forall q ps d, 0 < classes q -> well q (survey_of q ps (fst d)) d = true ->
  label_fast q (labels (classes q)) (survey_of q ps (fst d)) d = label_of q d.
Proof.
  intros q ps [[cuts | guarded stride | cut mask share] [ballots | weak table | rows]] Hpos H; simpl in H;
    try discriminate H;
    cbn [fst survey_of label_fast label_of].
  - rewrite points_fast_is, leader_is_plurality by assumption. reflexivity.
  - reflexivity.
  - apply masked_label_same; [assumption |]. apply same_windows.
Qed.

Lemma reaches_fast_are : forall q ps d, 0 < classes q -> well q (survey_of q ps (fst d)) d = true ->
  reaches_fast q (labels (classes q)) (survey_of q ps (fst d)) d
  = map (fun p => map (reach_on q d (ground q (fst d) p)) (labels (classes q))) ps.
Proof.
  intros q ps [[cuts | guarded stride | cut mask share] [ballots | weak table | rows]] Hpos H;
    pose proof (well_is_fitting q ps _ H) as Hf; simpl in H; try discriminate H;
    cbn [fst survey_of reaches_fast reach_on].
  - rewrite counted_at_is, map_map by exact Hf. apply map_ext. intros p. unfold counts. cbn [c_kept c_loose].
    rewrite elected_fast_is_elected by assumption. reflexivity.
  - rewrite map_map. apply map_ext. intros p. rewrite ground_fast_is_ground. cbn [ground marks_of].
    rewrite agreed_is; [| exact (rows_are_whole q ps guarded stride weak table H) | apply (marks_of_masks q ps guarded
      stride weak table p H)].
    rewrite first_agreed by apply (marks_of_masks q ps guarded stride weak table p H). unfold reach_on, masking_reach.
    destruct (proof_row _ _); reflexivity.
  - destruct (within (patch q) mask) eqn:W.
    + rewrite map_map. apply map_ext. intros p. rewrite ground_fast_is_ground. cbn [ground].
      apply map_ext. intros c. unfold guarded_reach. cbv zeta.
      rewrite (masked_label_same (classes q) share _ (windows q cut mask) rows Hpos (same_windows q cut mask)).
      unfold stay_loudest.
      rewrite (largest_same _ (fun window => inside _ (less window _) rows) _ (windows q cut mask) (same_windows q cut
        mask)).
      unfold reach_on. rewrite W. reflexivity.
    + rewrite map_map. apply map_ext. intros p. unfold reach_on. rewrite W. reflexivity.
Qed.

Lemma paper_reaches_fast_are : forall q ps cuts ballots, 0 < classes q ->
  well q (survey_of q ps (Voting cuts)) (Voting cuts, Ballots ballots) = true ->
  paper_reaches_fast q (labels (classes q)) (survey_of q ps (Voting cuts)) (Voting cuts, Ballots ballots)
  = map (fun p => map (paper_reach (classes q) (ground q (Voting cuts) p) ballots) (labels (classes q))) ps.
Proof.
  intros q ps cuts ballots Hpos H. pose proof (well_is_fitting q ps (Voting cuts, Ballots ballots) H) as Hf.
  pose proof (label_fast_is q ps (Voting cuts, Ballots ballots) Hpos H) as Hl. cbn [fst survey_of] in *.
  unfold paper_reaches_fast.
  rewrite Hl, counted_at_is, map_map by exact Hf. apply map_ext. intros p. unfold counts. cbn [c_kept c_loose].
  cbn [label_of]. cbv zeta.
  rewrite (entry_of_map (vote (classes q) ballots)) by (apply in_labels; apply vote_in_range; assumption).
  rewrite map2_map_r. reflexivity.
Qed.

Lemma margin_fast_is : forall q ps cuts ballots, 0 < classes q ->
  well q (survey_of q ps (Voting cuts)) (Voting cuts, Ballots ballots) = true ->
  margin_fast q (labels (classes q)) (survey_of q ps (Voting cuts)) (Voting cuts, Ballots ballots)
  = margin (classes q) (largest (map (fun p => touched_points (ground q (Voting cuts) p) ballots) ps)) ballots.
Proof.
  intros q ps cuts ballots Hpos H. pose proof (well_is_fitting q ps (Voting cuts, Ballots ballots) H) as Hf.
  pose proof (label_fast_is q ps (Voting cuts, Ballots ballots) Hpos H) as Hl. cbn [fst survey_of] in *.
  unfold margin_fast.
  rewrite Hl, counted_at_is, map_map, start_counts by exact Hf. unfold counts. cbn [c_kept c_loose c_doubtful].
  cbn [label_of]. cbv zeta.
  rewrite (entry_of_map (vote (classes q) ballots)) by (apply in_labels; apply vote_in_range; assumption).
  rewrite map2_map_r, forallb_map.
  rewrite (map_ext (fun p => loose (ground q (Voting cuts) p) ballots - doubtful (ground q (Voting cuts) p) ballots)
             (fun p => touched_points (ground q (Voting cuts) p) ballots)) by (intros; apply touched_points_are).
  reflexivity.
Qed.

Lemma withouts_fast_are : forall q slack ps d, 0 < classes q -> well q (survey_of q ps (fst d)) d = true ->
  withouts_fast (labels (classes q)) slack (survey_of q ps (fst d)) d
  = map (fun p => map (match d with
                       | (Voting _, Ballots ballots) => may_say_without (classes q) slack (ground q (fst d) p) ballots
                       | _ => may_say_on q d (ground q (fst d) p)
                       end) (labels (classes q))) ps.
Proof.
  intros q slack ps [[cuts | guarded stride | cut mask share] [ballots | weak table | rows]] Hpos H;
    pose proof (well_is_fitting q ps _ H) as Hf; simpl in H; try discriminate H;
    cbn [fst survey_of withouts_fast may_say_on].
  - rewrite counted_at_is, map_map by exact Hf. apply map_ext. intros p. unfold counts. cbn [c_kept c_doubtful].
    rewrite elected_fast_is_elected by assumption. apply map_ext. intros c. unfold elected, may_say_without.
    rewrite !N.add_assoc. reflexivity.
  - rewrite map_map. apply map_ext. intros p. rewrite ground_fast_is_ground. cbn [ground marks_of].
    rewrite first_solid by apply (marks_of_masks q ps guarded stride weak table p H).
    unfold may_say_on, masking_may_say. destruct (first_hiding _ _) as [i |]; [| reflexivity]. simpl.
    destruct (marked_at weak i); reflexivity.
  - rewrite map_map. reflexivity.
Qed.
