(** The label stays among the first k.  (docs/soundness.md, "Among the first k")

    Ballots may name up to [most] labels each; what they name after an attack is bounded by that and nothing else. *)
From Coq Require Import Permutation.
From Majorcert Require Export Votes.

Fixpoint sum (f : label -> N) (some : list label) : N :=
  match some with
  | [] => 0
  | c :: some => f c + sum f some
  end.

(** The points that [c] lacks to stand ahead of [y], when all that is free is taken from [y]. *)
Definition lack (y : label) (marks : list bool) (ballots : list ballot) (c : label) : N :=
  kept y marks ballots + (if y <? c then 1 else 0) - kept c marks ballots.

(** Each ballot names no label twice, and no more than so many. *)
Definition narrow (most : N) (ballots : list ballot) : Prop :=
  forall b, In b ballots -> NoDup (says b) /\ N.of_nat (length (says b)) <= most.

(** All of these labels stand ahead of [y]. *)
Definition ahead (y : label) (ballots : list ballot) (rivals : list label) : Prop :=
  forall c, In c rivals -> beats c (points c ballots) y (points y ballots) = true.

(** What it takes to put all of them ahead. *)
Definition affordable (most : N) (y : label) (marks : list bool) (ballots : list ballot) (rivals : list label) : Prop :=
  (forall c, In c rivals -> lack y marks ballots c <= loose marks ballots) /\
  sum (lack y marks ballots) rivals <= most * loose marks ballots.

(** * Proofs *)

Lemma names_in : forall c b, names c b = true <-> In c (says b).
Proof.
  intros c b. unfold names. rewrite existsb_exists. split.
  - intros [d [Hd E]]. apply N.eqb_eq in E. subst d. assumption.
  - intros H. exists c. split; [assumption | apply N.eqb_refl].
Qed.

Lemma sum_le : forall f g some, (forall c, In c some -> f c <= g c) -> sum f some <= sum g some.
Proof.
  intros f g some. induction some as [| c some IH]; intros H; simpl; [lia |].
  specialize (IH (fun d Hd => H d (or_intror Hd))). specialize (H c (or_introl eq_refl)). lia.
Qed.

Lemma sum_add : forall f g some, sum (fun c => f c + g c) some = sum f some + sum g some.
Proof. intros f g some. induction some as [| c some IH]; simpl; [reflexivity | rewrite IH; lia]. Qed.

(** However many rivals there are, one ballot names no more of them than it names labels. *)
Lemma one_ballot_gives : forall rivals b, NoDup rivals ->
  sum (fun c => gives c b) rivals <= worth b * N.of_nat (length (says b)).
Proof.
  intros rivals b H.
  assert (E : forall some, sum (fun c => gives c b) some =
    worth b * N.of_nat (length (filter (fun c => names c b) some))).
  { induction some as [| c some IH]; simpl; [lia |]. rewrite IH. unfold gives.
    destruct (names c b); simpl length; lia. }
  rewrite E. apply N.mul_le_mono_l.
  assert (length (filter (fun c => names c b) rivals) <= length (says b))%nat; [| lia].
  apply NoDup_incl_length; [apply NoDup_filter; assumption |].
  intros c Hc. apply filter_In in Hc. apply names_in. apply Hc.
Qed.

Lemma all_that_is_given : forall most marks before after rivals, rewritten marks before after -> narrow most after ->
  NoDup rivals ->
  sum (fun c => points c after) rivals <=
    sum (fun c => kept c marks before) rivals + most * loose marks before.
Proof.
  intros most marks before after rivals H Hn Hd. unfold kept, loose.
  induction H as [| b marks before after Hb H IH | mark b any marks before after Hm Hw H IH].
  - cbn [points total]. lia.
  - cbn [points total]. rewrite Hb. cbn [orb]. rewrite !sum_add.
    specialize (IH (fun x Hx => Hn x (or_intror Hx))). lia.
  - cbn [points total]. assert (E : mark || fragile b = true) by lia. rewrite E.
    specialize (IH (fun x Hx => Hn x (or_intror Hx))). destruct (Hn any (or_introl eq_refl)) as [_ Hl].
    pose proof (one_ballot_gives rivals any Hd) as G. rewrite Hw in G. rewrite !sum_add.
    assert (Z : forall some, sum (fun _ => 0) some = 0) by (induction some as [| ? ? I]; simpl; [reflexivity | exact I]).
    rewrite Z. nia.
Qed.

(** Whoever can be put ahead of the label together can be afforded. *)
Theorem top_k_is_sound : forall most marks before after y rivals, rewritten marks before after -> narrow most after ->
  NoDup rivals -> ahead y after rivals -> affordable most y marks before rivals.
Proof.
  intros most marks before after y rivals Ha Hn Hd H.
  assert (L : forall c, In c rivals -> lack y marks before c + kept c marks before <= points c after).
  { intros c Hc. specialize (H c Hc). unfold lack.
    pose proof (attack_bounds marks before after y Ha). pose proof (attack_bounds marks before after c Ha).
    destruct (N.ltb_spec y c); ranks. }
  split.
  - intros c Hc. specialize (L c Hc). pose proof (attack_bounds marks before after c Ha). lia.
  - pose proof (all_that_is_given most marks before after rivals Ha Hn Hd).
    pose proof (sum_le _ _ rivals L) as S. rewrite sum_add in S. lia.
Qed.

(** ** The k rivals that lack least stand for all *)
Definition among (some : list label) (c : label) : bool := existsb (N.eqb c) some.

Lemma among_in : forall some c, among some c = true <-> In c some.
Proof.
  intros some c. unfold among. rewrite existsb_exists. split.
  - intros [d [Hd E]]. apply N.eqb_eq in E. subst d. assumption.
  - intros H. exists c. split; [assumption | apply N.eqb_refl].
Qed.

Lemma sum_parts : forall f g some,
  sum f some = sum f (filter g some) + sum f (filter (fun c => negb (g c)) some) /\
  length some = (length (filter g some) + length (filter (fun c => negb (g c)) some))%nat.
Proof.
  intros f g some. induction some as [| c some [IH IH']]; simpl; [split; reflexivity |].
  destruct (g c); simpl; split; lia.
Qed.

Lemma sum_same : forall f some others, NoDup some -> NoDup others -> (forall c, In c some <-> In c others) ->
  sum f some = sum f others /\ length some = length others.
Proof.
  intros f some others H1 H2 H. assert (P : Permutation some others) by (apply NoDup_Permutation; assumption).
  split; [| apply Permutation_length; assumption].
  clear H1 H2 H. induction P; simpl; lia.
Qed.

Lemma sum_below : forall f some others, length some = length others ->
  (forall c d, In c some -> In d others -> f c <= f d) -> sum f some <= sum f others.
Proof.
  intros f. induction some as [| c some IH]; intros [| d others] Hl H; try discriminate Hl; simpl; [lia |].
  injection Hl as Hl. specialize (IH others Hl (fun x z Hx Hz => H x z (or_intror Hx) (or_intror Hz))).
  specialize (H c d (or_introl eq_refl) (or_introl eq_refl)). lia.
Qed.

Lemma least_are_affordable : forall most y marks ballots least rivals, NoDup least -> NoDup rivals ->
  length least = length rivals ->
  (forall c d, In c least -> In d rivals -> ~ In d least -> lack y marks ballots c <= lack y marks ballots d) ->
  affordable most y marks ballots rivals -> affordable most y marks ballots least.
Proof.
  intros most y marks ballots least rivals Nl Nr Hlen Hleast [Heach Hsum]. set (f := lack y marks ballots) in *.
  destruct (sum_parts f (among rivals) least) as [Sl Ll]. destruct (sum_parts f (among least) rivals) as [Sr Lr].
  destruct (sum_same f (filter (among rivals) least) (filter (among least) rivals)) as [Ss Ls];
    [apply NoDup_filter; assumption | apply NoDup_filter; assumption | |].
  { intros c. rewrite !filter_In, !among_in. tauto. }
  assert (Hout : forall c d, In c (filter (fun x => negb (among rivals x)) least) ->
    In d (filter (fun x => negb (among least x)) rivals) -> f c <= f d).
  { intros c d Hc Hd. apply filter_In in Hc. apply filter_In in Hd. destruct Hd as [Hd E].
    apply Hleast; [apply Hc | assumption |]. intros Hin. apply among_in in Hin. rewrite Hin in E. discriminate E. }
  split.
  - intros c Hc. destruct (among rivals c) eqn:E; [apply Heach, among_in; assumption |].
    assert (Hin : In c (filter (fun x => negb (among rivals x)) least)) by (apply filter_In; rewrite E; auto).
    destruct (filter (fun x => negb (among least x)) rivals) as [| d rest] eqn:F.
    + destruct (filter (fun x => negb (among rivals x)) least); [contradiction Hin | simpl in *; lia].
    + assert (Hd : In d (filter (fun x => negb (among least x)) rivals)) by (rewrite F; left; reflexivity).
      apply filter_In in Hd. specialize (Hout c d Hin (or_introl eq_refl)). specialize (Heach d (proj1 Hd)).
      apply (N.le_trans _ (f d)); assumption.
  - assert (S : sum f (filter (fun x => negb (among rivals x)) least) <=
      sum f (filter (fun x => negb (among least x)) rivals)) by (apply sum_below; [lia | assumption]).
    change (sum f least <= most * loose marks ballots). rewrite Sl, Ss. rewrite Sr in Hsum. eapply N.le_trans; [| exact Hsum]. apply N.add_le_mono_l. exact S.
Qed.

(** THEOREM. If the k rivals that lack least cannot be afforded, no k rivals stand ahead after any attack. *)
Theorem first_k : forall most marks before after y least rivals, rewritten marks before after -> narrow most after ->
  NoDup least -> NoDup rivals -> length least = length rivals ->
  (forall c d, In c least -> In d rivals -> ~ In d least -> lack y marks before c <= lack y marks before d) ->
  ~ affordable most y marks before least -> ~ ahead y after rivals.
Proof.
  intros most marks before after y least rivals Ha Hn Nl Nr Hlen Hleast Hnot H. apply Hnot.
  apply (least_are_affordable most y marks before least rivals); try assumption.
  apply (top_k_is_sound most marks before after); assumption.
Qed.

(** ** Ballots that may name as many labels as there are rivals: every free one names them all *)
Fixpoint elect_all (rivals : list label) (marks : list bool) (ballots : list ballot) : list ballot :=
  match marks, ballots with
  | mark :: marks, b :: ballots =>
      (if mark || fragile b then Ballot (worth b) (fragile b) rivals else b) :: elect_all rivals marks ballots
  | _, _ => []
  end.

Lemma elect_all_is_attack : forall rivals marks ballots, length marks = length ballots ->
  rewritten marks ballots (elect_all rivals marks ballots).
Proof.
  intros rivals marks. induction marks as [| m marks IH]; intros [| b ballots] H; try discriminate H; simpl.
  - constructor.
  - injection H as H. destruct (m || fragile b) eqn:E.
    + apply becomes; [lia | reflexivity | auto].
    + apply orb_false_iff in E. destruct E as [-> E]. apply stays; auto.
Qed.

Lemma elect_all_points : forall rivals k marks ballots, length marks = length ballots ->
  points k (elect_all rivals marks ballots) =
    kept k marks ballots + (if existsb (N.eqb k) rivals then loose marks ballots else 0).
Proof.
  intros rivals k marks. unfold kept, loose. induction marks as [| m marks IH]; intros [| b ballots] H; try discriminate H.
  - simpl. destruct (existsb _ _); reflexivity.
  - injection H as H. simpl. rewrite IH by assumption. destruct (m || fragile b) eqn:E.
    + unfold gives, names. simpl. destruct (existsb _ _); lia.
    + destruct (existsb _ _); lia.
Qed.

Theorem top_k_is_tight : forall marks ballots y rivals, length marks = length ballots -> ~ In y rivals ->
  (forall c, In c rivals -> lack y marks ballots c <= loose marks ballots) ->
  exists after, rewritten marks ballots after /\ ahead y after rivals.
Proof.
  intros marks ballots y rivals Hlen Hy H. exists (elect_all rivals marks ballots).
  split; [apply elect_all_is_attack; assumption |]. intros c Hc. rewrite !elect_all_points by assumption.
  assert (Ec : existsb (N.eqb c) rivals = true) by (apply existsb_exists; exists c; split; [assumption | apply N.eqb_refl]).
  assert (Ey : existsb (N.eqb y) rivals = false).
  { destruct (existsb (N.eqb y) rivals) eqn:E; [| reflexivity]. apply existsb_exists in E. destruct E as [d [Hd E]].
    apply N.eqb_eq in E. subst d. contradiction. }
  rewrite Ec, Ey. specialize (H c Hc). unfold lack in H.
  assert (c <> y) by (intros ->; contradiction). destruct (N.ltb_spec y c); ranks.
Qed.

(** ** Ballots of one label, each worth one point: they are dealt out, until every rival has what it lacks *)
Fixpoint deal (queue : list label) (marks : list bool) (ballots : list ballot) : list ballot :=
  match marks, ballots with
  | mark :: marks, b :: ballots =>
      if mark || fragile b
      then Ballot (worth b) (fragile b) (firstn 1 queue) :: deal (tl queue) marks ballots
      else b :: deal queue marks ballots
  | _, _ => []
  end.

(** Each label as often as it lacks votes. *)
Fixpoint wanted (needs : label -> N) (rivals : list label) : list label :=
  match rivals with
  | [] => []
  | c :: rivals => repeat c (N.to_nat (needs c)) ++ wanted needs rivals
  end.

Definition times (c : label) (queue : list label) : N := N.of_nat (count_occ N.eq_dec queue c).

Lemma deal_is_attack : forall marks ballots queue, length marks = length ballots ->
  rewritten marks ballots (deal queue marks ballots).
Proof.
  induction marks as [| m marks IH]; intros [| b ballots] queue H; try discriminate H; simpl; [constructor |].
  injection H as H. destruct (m || fragile b) eqn:E.
  - apply becomes; [lia | reflexivity | auto].
  - apply orb_false_iff in E. destruct E as [-> E]. apply stays; auto.
Qed.

Lemma deal_points : forall marks ballots queue k, length marks = length ballots ->
  (forall b, In b ballots -> worth b = 1) -> N.of_nat (length queue) <= loose marks ballots ->
  points k (deal queue marks ballots) = kept k marks ballots + times k queue.
Proof.
  unfold kept, loose, times.
  induction marks as [| m marks IH]; intros [| b ballots] queue k H Hw Hq; try discriminate H; simpl in *.
  - destruct queue; [reflexivity | simpl in Hq; lia].
  - injection H as H. pose proof (Hw b (or_introl eq_refl)) as W. destruct (m || fragile b) eqn:E.
    + destruct queue as [| c queue]; simpl.
      * rewrite IH; [unfold gives, names; simpl; lia | assumption | auto | simpl; lia].
      * rewrite IH; [| assumption | auto | simpl in Hq; lia].
        unfold gives, names. simpl. rewrite orb_false_r, W.
        destruct (N.eq_dec c k) as [-> | Hne]; [rewrite N.eqb_refl; lia |].
        assert (F : (k =? c) = false) by lia. rewrite F. lia.
    + simpl. rewrite IH; [lia | assumption | auto | lia].
Qed.

Lemma wanted_length : forall needs rivals, N.of_nat (length (wanted needs rivals)) = sum needs rivals.
Proof.
  intros needs rivals. induction rivals as [| c rivals IH]; simpl; [reflexivity |].
  rewrite app_length, repeat_length, <- IH. lia.
Qed.

Lemma wanted_has : forall needs rivals c, In c rivals -> needs c <= times c (wanted needs rivals).
Proof.
  intros needs rivals c. unfold times. induction rivals as [| d rivals IH]; intros H; [contradiction H |].
  simpl. rewrite count_occ_app. destruct H as [-> | H].
  - rewrite count_occ_repeat_eq by reflexivity. lia.
  - rewrite Nat2N.inj_add. eapply N.le_trans; [exact (IH H) | apply N.le_add_l].
Qed.

Lemma wanted_of : forall needs rivals y, ~ In y rivals -> times y (wanted needs rivals) = 0.
Proof.
  intros needs rivals y H. unfold times. induction rivals as [| d rivals IH]; [reflexivity |].
  simpl. rewrite count_occ_app, count_occ_repeat_neq by (intros ->; apply H; left; reflexivity).
  exact (IH (fun Hin => H (or_intror Hin))).
Qed.

Theorem top_k_of_single_votes_is_tight : forall marks ballots y rivals, length marks = length ballots ->
  (forall b, In b ballots -> worth b = 1) -> ~ In y rivals -> affordable 1 y marks ballots rivals ->
  exists after, rewritten marks ballots after /\ ahead y after rivals /\
    forall b, In b after -> In b ballots \/ (length (says b) <= 1)%nat.
Proof.
  intros marks ballots y rivals Hlen Hw Hy [_ Hs].
  set (queue := wanted (lack y marks ballots) rivals). exists (deal queue marks ballots).
  assert (Hq : N.of_nat (length queue) <= loose marks ballots) by (unfold queue; rewrite wanted_length; lia).
  split; [apply deal_is_attack; assumption |]. split.
  - intros c Hc. rewrite !deal_points by assumption. unfold queue. rewrite (wanted_of _ _ y Hy).
    pose proof (wanted_has (lack y marks ballots) rivals c Hc) as Hn. unfold lack in Hn at 1.
    assert (c <> y) by (intros ->; contradiction). destruct (N.ltb_spec y c); ranks.
  - clear Hw Hq Hs Hy. clearbody queue. revert ballots queue Hlen.
    induction marks as [| m marks IH]; intros [| b ballots] queue H x Hx; try discriminate H; simpl in Hx; [contradiction |].
    injection H as H. destruct (m || fragile b); destruct Hx as [<- | Hx].
    + right. simpl. destruct queue; simpl; lia.
    + destruct (IH ballots (tl queue) H x Hx); [left; right; assumption | right; assumption].
    + left. left. reflexivity.
    + destruct (IH ballots queue H x Hx); [left; right; assumption | right; assumption].
Qed.
