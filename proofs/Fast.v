(** The same, computed fast: a vector has one entry for each label; counts follow the patch from placement to placement,
    and only ballots that it begins or ceases to touch are looked at. Every function here is proved equal to its
    definition. *)
From Coq Require Import FMapPositive.
From Majorcert Require Export Evidence.

(** ** Vectors *)
Fixpoint map2 {A B C : Type} (f : A -> B -> C) (a : list A) (b : list B) : list C :=
  match a, b with
  | x :: a, y :: b => f x y :: map2 f a b
  | _, _ => []
  end.

Lemma map2_map : forall (A B C X : Type) (f : A -> B -> C) (g : X -> A) (h : X -> B) l,
  map2 f (map g l) (map h l) = map (fun x => f (g x) (h x)) l.
Proof. induction l as [| x l IH]; simpl; [| rewrite IH]; reflexivity. Qed.

Lemma map2_map_r : forall (A B C : Type) (f : A -> B -> C) (h : A -> B) l,
  map2 f l (map h l) = map (fun x => f x (h x)) l.
Proof. induction l as [| x l IH]; simpl; [| rewrite IH]; reflexivity. Qed.

(** The leading label and its votes. *)
Fixpoint lead (y : label) (u : N) (cs : list label) (votes : list N) : label * N :=
  match cs, votes with
  | c :: cs, v :: votes => if beats c v y u then lead c v cs votes else lead y u cs votes
  | _, _ => (y, u)
  end.
Definition leader (cs : list label) (votes : list N) : label * N :=
  match votes with
  | v :: _ => lead 0 v cs votes
  | [] => (0, 0)
  end.

Lemma lead_is_best : forall votes cs y,
  lead y (votes y) cs (map votes cs) = (best votes y cs, votes (best votes y cs)).
Proof.
  induction cs as [| c cs IH]; intros y; simpl; [reflexivity |]. destruct (beats c _ y _); apply IH.
Qed.

Lemma labels_start : forall n, 0 < n -> exists rest, labels n = 0 :: rest.
Proof.
  intros n H. unfold labels, range. destruct (N.to_nat n) eqn:E; [lia |]. simpl. eauto.
Qed.

Lemma leader_is_plurality : forall n votes, 0 < n ->
  leader (labels n) (map votes (labels n)) = (plurality n votes, votes (plurality n votes)).
Proof.
  intros n votes H. unfold plurality. rewrite <- lead_is_best.
  destruct (labels_start n H) as [rest E]. rewrite E. reflexivity.
Qed.

(** Labels that win with [gain] more points: one comparison with the leader is enough. *)
Definition elected (n : N) (votes : label -> N) (gain : N) (c : label) : bool :=
  forallb (fun k => (k =? c) || beats c (votes c + gain) k (votes k)) (labels n).
Definition elected_fast (cs : list label) (votes : list N) (gain : N) : list bool :=
  let (z, best) := leader cs votes in
  map2 (fun c v => (c =? z) || beats c (v + gain) z best) cs votes.

Lemma elected_fast_is_elected : forall n votes gain, 0 < n ->
  elected_fast (labels n) (map votes (labels n)) gain = map (elected n votes gain) (labels n).
Proof.
  intros n votes gain H. unfold elected_fast. rewrite leader_is_plurality by assumption.
  destruct (plurality_wins n votes H) as [Hz Hb]. set (z := plurality n votes) in *.
  rewrite map2_map_r. apply map_ext_in. intros c Hc. apply in_labels in Hc.
  apply eq_true_iff_eq. unfold elected. rewrite forallb_labels. split.
  - intros E k Hk. destruct (N.eqb_spec k c) as [| Hkc]; [reflexivity |].
    destruct (N.eq_dec k z) as [-> | Hkz]; [ranks |]. specialize (Hb k Hk Hkz).
    destruct (N.eqb_spec c z) as [-> | Hcz]; ranks.
  - intros E. destruct (N.eqb_spec c z) as [| Hcz]; [reflexivity |]. specialize (E z Hz). ranks.
Qed.

(** The entry of one label. *)
Fixpoint entry_of (y : label) (cs : list label) (values : list N) : N :=
  match cs, values with
  | c :: cs, v :: values => if c =? y then v else entry_of y cs values
  | _, _ => 0
  end.

Lemma entry_of_map : forall y f cs, In y cs -> entry_of y cs (map f cs) = f y.
Proof.
  intros y f. induction cs as [| c cs IH]; intros H; [contradiction H |]. simpl.
  destruct (N.eqb_spec c y) as [-> | Hne]; [reflexivity |]. apply IH. destruct H; [contradiction | assumption].
Qed.

(** The closed form on vectors. *)
Definition only_fast (cs : list label) (y : label) (reach : list bool) : bool :=
  forallb (fun b => b) (map2 (fun c r => eqb r (c =? y)) cs reach).
Definition closed_form_fast (cs : list label) (reaches : list (list bool)) (y : label) : bool :=
  let sure := count (only_fast cs y) reaches in
  let said := fold_right (map2 (fun (r : bool) n => if r then 1 + n else n)) (map (fun _ => 0) cs) reaches in
  forallb (fun b => b) (map2 (fun c n => (c =? y) || (n + (if c <? y then 1 else 0) <=? sure)) cs said).

Lemma forallb_map : forall (A : Type) (f : A -> bool) l, forallb (fun b => b) (map f l) = forallb f l.
Proof. induction l as [| x l IH]; simpl; [| rewrite IH]; reflexivity. Qed.

Lemma closed_form_fast_is_closed_form : forall n reaches y,
  closed_form_fast (labels n) (map (fun reach => map reach (labels n)) reaches) y = closed_form n reaches y.
Proof.
  intros n reaches y. unfold closed_form_fast.
  assert (S : count (only_fast (labels n) y) (map (fun reach => map reach (labels n)) reaches) =
    count (only n y) reaches).
  { induction reaches as [| r reaches IH]; simpl; [reflexivity |]. rewrite IH. unfold only_fast, only.
    rewrite map2_map_r, forallb_map. reflexivity. }
  assert (B : fold_right (map2 (fun (r : bool) n => if r then 1 + n else n)) (map (fun _ => 0) (labels n))
                (map (fun reach => map reach (labels n)) reaches)
              = map (fun c => count (fun reach => reach c) reaches) (labels n)).
  { clear S. induction reaches as [| r reaches IH]; cbn [map fold_right count]; [reflexivity |]. rewrite IH, map2_map.
    apply map_ext. intros c. destruct (r c); lia. }
  rewrite S, B, map2_map_r, forallb_map. reflexivity.
Qed.

(** ** Ballots by number *)
Notation tree := (PositiveMap.t).
Fixpoint numbered {A : Type} (first : positive) (l : list A) : tree A :=
  match l with
  | [] => PositiveMap.empty A
  | x :: l => PositiveMap.add first x (numbered (Pos.succ first) l)
  end.
Fixpoint numbers (first : positive) (marks : list bool) : list positive :=
  match marks with
  | [] => []
  | mark :: marks => if mark then first :: numbers (Pos.succ first) marks else numbers (Pos.succ first) marks
  end.

(** The marked ones, in order. *)
Fixpoint marked {A : Type} (marks : list bool) (l : list A) : list A :=
  match marks, l with
  | mark :: marks, x :: l => if mark then x :: marked marks l else marked marks l
  | _, _ => []
  end.

Fixpoint fetch {A : Type} (t : tree A) (ns : list positive) : list A :=
  match ns with
  | [] => []
  | n :: ns => match PositiveMap.find n t with Some x => x :: fetch t ns | None => fetch t ns end
  end.

Lemma numbers_from : forall marks first n, In n (numbers first marks) -> (first <= n)%positive.
Proof.
  induction marks as [| m marks IH]; intros first n H; simpl in H; [contradiction H |].
  destruct m; [destruct H as [-> | H]; [lia |] |]; specialize (IH _ _ H); lia.
Qed.

Lemma fetch_skips : forall (A : Type) ns n (x : A) t, (forall m, In m ns -> (n < m)%positive) ->
  fetch (PositiveMap.add n x t) ns = fetch t ns.
Proof.
  induction ns as [| m ns IH]; intros n x t H; simpl; [reflexivity |].
  rewrite PositiveMap.gso by (specialize (H m (or_introl eq_refl)); lia).
  rewrite IH by (intros; apply H; right; assumption). reflexivity.
Qed.

Lemma fetch_marked : forall (A : Type) marks (l : list A) first,
  fetch (numbered first l) (numbers first marks) = marked marks l.
Proof.
  induction marks as [| m marks IH]; intros l first; [reflexivity |]. destruct l as [| x l].
  - simpl. clear. destruct m; simpl; [rewrite PositiveMap.gempty |].
    + induction (numbers (Pos.succ first) marks) as [| n ns IH]; simpl; [reflexivity |]. rewrite PositiveMap.gempty.
      exact IH.
    + induction (numbers (Pos.succ first) marks) as [| n ns IH]; simpl; [reflexivity |]. rewrite PositiveMap.gempty.
      exact IH.
  - assert (S : forall m', In m' (numbers (Pos.succ first) marks) -> (first < m')%positive).
    { intros m' H. apply numbers_from in H. lia. }
    simpl. destruct m; simpl; [rewrite PositiveMap.gss |]; rewrite fetch_skips, IH by assumption; reflexivity.
Qed.

(** ** Counts that follow the patch *)
Record counted := Counted { c_kept : list N; c_loose : N; c_doubtful : N }.

(** A ballot as it is counted: its worth if it is solid, if it is fragile, and for each label whether it names it. *)
Record weighed := Weighed { firm_worth : N; weak_worth : N; named : list bool }.
Definition weigh (cs : list label) (b : ballot) : weighed :=
  if fragile b then Weighed 0 (worth b) (map (fun c => names c b) cs)
  else Weighed (worth b) 0 (map (fun c => names c b) cs).

Definition release (s : counted) (b : weighed) : counted :=
  Counted (map2 (fun (n : bool) v => if n then v + firm_worth b else v) (named b) (c_kept s))
    (c_loose s - firm_worth b) (c_doubtful s + weak_worth b).
Definition seize (s : counted) (b : weighed) : counted :=
  Counted (map2 (fun (n : bool) v => if n then v - firm_worth b else v) (named b) (c_kept s))
    (c_loose s + firm_worth b) (c_doubtful s - weak_worth b).

(** From one placement to the next: the numbers of ballots that are newly touched, and of those no longer touched. *)
Definition change := (list positive * list positive)%type.
Definition change_between (old new : list bool) : change :=
  (numbers 1 (map2 (fun o n => n && negb o) old new), numbers 1 (map2 (fun o n => o && negb n) old new)).
Fixpoint changes (old : list bool) (sequence : list (list bool)) : list change :=
  match sequence with
  | [] => []
  | new :: sequence => change_between old new :: changes new sequence
  end.

Definition move (t : tree weighed) (s : counted) (step : change) : counted :=
  fold_left seize (fetch t (fst step)) (fold_left release (fetch t (snd step)) s).
Fixpoint follow (t : tree weighed) (s : counted) (steps : list change) : list counted :=
  match steps with
  | [] => []
  | step :: steps => let s' := move t s step in s' :: follow t s' steps
  end.

Definition untouched (ballots : list ballot) : list bool := map (fun _ => false) ballots.

(** Counts with nothing touched, then those at each placement of a sequence. *)
Definition at_rest (cs : list label) (ballots : list ballot) : counted :=
  fold_left release (map (weigh cs) ballots) (Counted (map (fun _ => 0) cs) 0 0).
Definition with_fragile (ballots : list ballot) (s : counted) : counted :=
  Counted (c_kept s) (c_doubtful s) (c_doubtful s).
Definition start (cs : list label) (ballots : list ballot) : counted := with_fragile ballots (at_rest cs ballots).

Definition counts (cs : list label) (marks : list bool) (ballots : list ballot) : counted :=
  Counted (map (fun c => kept c marks ballots) cs) (loose marks ballots) (doubtful marks ballots).

(** Sums over the marked ballots. *)
Definition firm (b : ballot) : N := if fragile b then 0 else worth b.
Definition weak (b : ballot) : N := if fragile b then worth b else 0.
Definition firm_gives (c : label) (b : ballot) : N := if fragile b then 0 else gives c b.
Fixpoint sum (f : ballot -> N) (l : list ballot) : N :=
  match l with
  | [] => 0
  | b :: l => f b + sum f l
  end.

Lemma firm_worth_is : forall cs b, firm_worth (weigh cs b) = firm b.
Proof. intros. unfold weigh, firm. destruct (fragile b); reflexivity. Qed.
Lemma weak_worth_is : forall cs b, weak_worth (weigh cs b) = weak b.
Proof. intros. unfold weigh, weak. destruct (fragile b); reflexivity. Qed.
Lemma named_is : forall cs b, named (weigh cs b) = map (fun c => names c b) cs.
Proof. intros. unfold weigh. destruct (fragile b); reflexivity. Qed.

Lemma firm_gives_is : forall c b, firm_gives c b = if names c b then firm b else 0.
Proof. intros. unfold firm_gives, gives, firm. destruct (names c b), (fragile b); reflexivity. Qed.

Lemma release_all : forall cs bs f l d,
  fold_left release (map (weigh cs) bs) (Counted (map f cs) l d) =
  Counted (map (fun c => f c + sum (firm_gives c) bs) cs) (l - sum firm bs) (d + sum weak bs).
Proof.
  intros cs. induction bs as [| b bs IH]; intros f l d; simpl.
  - f_equal; [apply map_ext; intros; lia | lia | lia].
  - unfold release at 2. cbn [c_kept c_loose c_doubtful].
    rewrite named_is, firm_worth_is, weak_worth_is, map2_map, IH. f_equal; [| lia | lia].
    apply map_ext. intros c. rewrite (firm_gives_is c b). destruct (names c b); lia.
Qed.

Lemma seize_all : forall cs bs f l d,
  fold_left seize (map (weigh cs) bs) (Counted (map f cs) l d) =
  Counted (map (fun c => f c - sum (firm_gives c) bs) cs) (l + sum firm bs) (d - sum weak bs).
Proof.
  intros cs. induction bs as [| b bs IH]; intros f l d; simpl.
  - f_equal; [apply map_ext; intros; lia | lia | lia].
  - unfold seize at 2. cbn [c_kept c_loose c_doubtful].
    rewrite named_is, firm_worth_is, weak_worth_is, map2_map, IH. f_equal; [| lia | lia].
    apply map_ext. intros c. rewrite (firm_gives_is c b). destruct (names c b); lia.
Qed.

Lemma marked_map : forall (A B : Type) (f : A -> B) marks l, marked marks (map f l) = map f (marked marks l).
Proof.
  induction marks as [| m marks IH]; intros [| x l]; simpl; try reflexivity. destruct m; simpl; rewrite IH; reflexivity.
Qed.

(** What one step changes, for each of the three sums. *)
Lemma step_sums : forall c old new ballots, length old = length ballots -> length new = length ballots ->
  let more := marked (map2 (fun o n => n && negb o) old new) ballots in
  let less := marked (map2 (fun o n => o && negb n) old new) ballots in
  kept c new ballots + sum (firm_gives c) more = kept c old ballots + sum (firm_gives c) less /\
  (loose new ballots + sum firm less = loose old ballots + sum firm more /\ sum firm less <= loose old ballots) /\
  doubtful new ballots + sum weak more = doubtful old ballots + sum weak less.
Proof.
  intros c. unfold kept, loose, doubtful. induction old as [| o old IH];
    intros [| n new] [| b ballots] Ho Hn; try discriminate Ho; try discriminate Hn; [simpl; lia |].
  injection Ho as Ho. injection Hn as Hn. specialize (IH new ballots Ho Hn). cbv zeta in IH.
  assert (E : firm_gives c b = (if fragile b then 0 else gives c b) /\ firm b = (if fragile b then 0 else worth b) /\
              weak b = if fragile b then worth b else 0) by auto.
  simpl. destruct o, n; simpl; destruct (fragile b); simpl; lia.
Qed.

Lemma move_counts : forall cs old new ballots, length old = length ballots -> length new = length ballots ->
  move (numbered 1 (map (weigh cs) ballots)) (counts cs old ballots) (change_between old new) = counts cs new ballots.
Proof.
  intros cs old new ballots Ho Hn. unfold move, change_between. cbn [fst snd].
  rewrite !fetch_marked, !marked_map. unfold counts. rewrite release_all, seize_all.
  pose proof (step_sums 0 old new ballots Ho Hn) as S. cbv zeta in S. f_equal; [| lia | lia].
  apply map_ext. intros c. pose proof (step_sums c old new ballots Ho Hn) as Sc. cbv zeta in Sc. lia.
Qed.

Lemma follow_counts : forall cs ballots sequence old, length old = length ballots ->
  (forall marks, In marks sequence -> length marks = length ballots) ->
  follow (numbered 1 (map (weigh cs) ballots)) (counts cs old ballots) (changes old sequence)
  = map (fun marks => counts cs marks ballots) sequence.
Proof.
  intros cs ballots. induction sequence as [| new sequence IH]; intros old Ho H; simpl; [reflexivity |].
  rewrite move_counts by (auto with datatypes). rewrite IH by (auto with datatypes). reflexivity.
Qed.

Lemma start_counts : forall cs ballots, start cs ballots = counts cs (untouched ballots) ballots.
Proof.
  intros cs ballots. unfold start, at_rest, with_fragile, counts.
  rewrite (release_all cs ballots (fun _ => 0)). cbn [c_kept c_doubtful].
  assert (forall c, kept c (untouched ballots) ballots = sum (firm_gives c) ballots /\
                    loose (untouched ballots) ballots = sum weak ballots /\
                    doubtful (untouched ballots) ballots = sum weak ballots) as E.
  { intros c. unfold kept, loose, doubtful, untouched. induction ballots as [| b ballots IH]; simpl; [auto |].
    destruct IH as [-> [-> ->]]. unfold firm_gives, weak. destruct (fragile b); auto. }
  f_equal; [apply map_ext; intros c; destruct (E c) as [-> _]; lia | |]; destruct (E 0) as [_ [E1 E2]]; lia.
Qed.

Lemma touched_points_are : forall marks ballots,
  loose marks ballots - doubtful marks ballots = touched_points marks ballots.
Proof.
  intros marks ballots.
  assert (loose marks ballots = touched_points marks ballots + doubtful marks ballots) as ->; [| lia].
  unfold loose, doubtful, touched_points. revert ballots.
  induction marks as [| m marks IH]; intros [| b ballots]; simpl; try reflexivity. rewrite IH.
  destruct m, (fragile b); simpl; lia.
Qed.

(** ** Each of them once *)
Fixpoint distinct {A : Type} (same : A -> A -> bool) (seen l : list A) : list A :=
  match l with
  | [] => []
  | x :: l => if existsb (same x) seen then distinct same seen l else x :: distinct same (x :: seen) l
  end.

Lemma distinct_stands_for_all : forall (A : Type) (same : A -> A -> bool) l seen x,
  (forall x, same x x = true) -> In x l -> exists y, In y (seen ++ distinct same seen l) /\ same x y = true.
Proof.
  intros A same l. induction l as [| z l IH]; intros seen x Hrefl H; [contradiction H |]. simpl.
  destruct (existsb (same z) seen) eqn:E.
  - destruct H as [-> | H]; [| apply IH; assumption].
    apply existsb_exists in E. destruct E as [y [Hy Hs]]. exists y. split; [apply in_or_app; auto | assumption].
  - destruct H as [-> | H].
    + exists x. split; [apply in_or_app; right; left; reflexivity | apply Hrefl].
    + destruct (IH (z :: seen) x Hrefl H) as [y [Hy Hs]]. exists y. split; [| assumption].
      rewrite in_app_iff in *. simpl in *. tauto.
Qed.

Lemma distinct_among : forall (A : Type) (same : A -> A -> bool) l seen y, In y (distinct same seen l) -> In y l.
Proof.
  intros A same l. induction l as [| z l IH]; intros seen y H; simpl in *; [assumption |].
  destruct (existsb (same z) seen); [| destruct H as [-> | H]]; eauto.
Qed.

Fixpoint same_list {A : Type} (same : A -> A -> bool) (a b : list A) : bool :=
  match a, b with
  | [], [] => true
  | x :: a, y :: b => same x y && same_list same a b
  | _, _ => false
  end.

Lemma same_list_iff : forall (A : Type) (same : A -> A -> bool), (forall x y, same x y = true <-> x = y) ->
  forall a b, same_list same a b = true <-> a = b.
Proof.
  intros A same H. induction a as [| x a IH]; intros [| y b]; simpl; split; intros E; try discriminate E;
    try reflexivity.
  - apply andb_true_iff in E. destruct E as [E1 E2]. apply H in E1. apply IH in E2. congruence.
  - injection E as -> ->. apply andb_true_iff. split; [apply H | apply IH]; reflexivity.
Qed.

Definition same_marks : list bool -> list bool -> bool := same_list eqb.
Lemma same_marks_iff : forall a b, same_marks a b = true <-> a = b.
Proof. apply same_list_iff. intros. apply eqb_true_iff. Qed.
