(** What is proved about the checker.  [check] is what runs (it is extracted to OCaml); [promised] is what it means. *)
From Coq Require Import PeanoNat.
From Majorcert Require Export Sound.

Lemma map2_fst : forall (A B : Type) (f : A -> defender -> B) (g : kind -> A) l,
  map2 f (map g (map fst l)) l = map (fun d => f (g (fst d)) d) l.
Proof. induction l as [| d l IH]; simpl; [| rewrite IH]; reflexivity. Qed.

Lemma by_place_map : forall (A : Type) (f : defender -> pixel -> A) ps l,
  by_place ps (map (fun d => map (f d) ps) l) = map (fun p => map (fun d => f d p) l) ps.
Proof.
  intros A f ps. unfold by_place. induction l as [| d l IH]; simpl; [reflexivity |]. rewrite IH, map2_map. reflexivity.
Qed.

Lemma map_fst_combine : forall (A B : Type) (a : list A) (b : list B), length b = length a -> map fst (combine a b) = a.
Proof.
  induction a as [| x a IH]; intros [| y b] H; try discriminate H; [reflexivity |]. simpl. f_equal. apply IH.
  injection H as H. exact H.
Qed.

Lemma forallb_map_to : forall (A B : Type) (f : B -> bool) (g : A -> B) l,
  forallb f (map g l) = forallb (fun x => f (g x)) l.
Proof. induction l as [| x l IH]; simpl; [| rewrite IH]; reflexivity. Qed.

(** What has been established when an image is judged. *)
Definition judged_well (q : question) (kinds : list kind) (ensemble : list defender) : Prop :=
  asked_well q /\ map fst ensemble = kinds /\ Forall (fitting q) ensemble /\
  Forall (fun d => well q (survey_of q (places q kinds) (fst d)) d = true) ensemble.

Lemma judge_establishes : forall q cl kinds records y holds, judge (prepare q cl kinds) records = Some (y, holds) ->
  let ensemble := combine kinds records in
  judged_well q kinds ensemble /\ y = ensemble_label q ensemble /\ y < classes q /\
  holds = certified (prepare q cl kinds) ensemble y.
Proof.
  intros q cl kinds records y holds H ensemble. unfold judge in H.
  cbn [p_question p_kinds p_surveys p_labels prepare] in H.
  fold ensemble in H. set (ps := places q kinds) in *.
  destruct (_ && _) eqn:E in H; [| discriminate H].
  apply andb_true_iff in E. destruct E as [E Ewell]. apply andb_true_iff in E. destruct E as [E Elen].
  apply andb_true_iff in E. destruct E as [Efits Epos]. apply Nat.eqb_eq in Elen. apply N.ltb_lt in Epos.
  assert (Hk : map fst ensemble = kinds) by (apply map_fst_combine; assumption).
  rewrite <- Hk in Ewell at 1. rewrite map2_fst, forallb_map in Ewell. rewrite forallb_forall in Ewell.
  assert (Hw : Forall (fun d => well q (survey_of q ps (fst d)) d = true) ensemble).
  { apply Forall_forall. exact Ewell. }
  assert (Hf : Forall (fitting q) ensemble).
  { eapply Forall_impl; [| exact Hw]. intros d. apply well_is_fitting. }
  assert (Hl : map2 (label_fast q (labels (classes q))) (map (survey_of q ps) kinds) ensemble =
    map (label_of q) ensemble).
  { rewrite <- Hk at 1. rewrite map2_fst. apply map_ext_in. intros d Hd. apply label_fast_is; auto. }
  rewrite Hl in H. injection H as <- <-. repeat split; auto. apply verdict_in_range. assumption.
Qed.

(** If a statement about the marks holds at every place that is judged, it holds at every placement. *)
Lemma everywhere_holds : forall q (ensemble : list defender) (statement : list (list bool) -> Prop),
  (forall r, In r (places q (map fst ensemble)) -> statement (map (fun d => ground q (fst d) r) ensemble)) ->
  forall p, In p (placements (image q) (patch q)) -> statement (map (fun d => ground q (fst d) p) ensemble).
Proof.
  intros q ensemble statement H p Hp. destruct (places_stand_for_all q (map fst ensemble) p Hp) as [r [Hr [_ Hg]]].
  replace (map (fun d => ground q (fst d) p) ensemble) with (map (fun d => ground q (fst d) r) ensemble); [auto |].
  apply map_ext_in. intros d Hd. symmetry. apply Hg. apply in_map. assumption.
Qed.

Lemma map_with_ground : forall (A : Type) (f : defender -> list bool -> A) q ensemble p,
  map (fun d => f d (ground q (fst d) p)) ensemble = map2 f ensemble (map (fun d => ground q (fst d) p) ensemble).
Proof. intros. rewrite map2_map_r. reflexivity. Qed.

Lemma closed_form_everywhere : forall q (f : defender -> list bool -> label -> bool) ensemble y,
  forallb (fun reaches => closed_form_fast (labels (classes q)) reaches y)
    (map (fun p => map (fun d => map (f d (ground q (fst d) p)) (labels (classes q))) ensemble)
       (places q (map fst ensemble))) = true <->
  forall p, In p (placements (image q) (patch q)) ->
    closed_form (classes q) (map (fun d => f d (ground q (fst d) p)) ensemble) y = true.
Proof.
  intros q f ensemble y. rewrite forallb_map_to.
  assert (E : forall p, closed_form_fast (labels (classes q))
            (map (fun d => map (f d (ground q (fst d) p)) (labels (classes q))) ensemble) y
          = closed_form (classes q) (map (fun d => f d (ground q (fst d) p)) ensemble) y).
  { intros p. rewrite <- closed_form_fast_is_closed_form, map_map. reflexivity. }
  rewrite forallb_forall. split.
  - intros H p Hp. rewrite map_with_ground.
    apply (everywhere_holds q ensemble (fun ms => closed_form (classes q) (map2 f ensemble ms) y = true));
      [| assumption].
    intros r Hr. rewrite <- map_with_ground, <- E. apply H. assumption.
  - intros H p Hp. rewrite E. apply H. eapply places_are_placements. eassumption.
Qed.

Lemma exact_claim : forall q kinds ensemble y, judged_well q kinds ensemble ->
  (certified (prepare q Exact kinds) ensemble y = true <->
   forall p, In p (placements (image q) (patch q)) ->
     closed_form (classes q) (map (fun d => reach_on q d (ground q (fst d) p)) ensemble) y = true).
Proof.
  intros q kinds ensemble y [[_ Hpos] [Hk [_ Hw]]]. subst kinds. unfold certified.
  cbn [p_question p_claim p_surveys p_labels p_places prepare].
  rewrite map2_fst.
  rewrite (map_ext_in _ (fun d => map (fun p => map (reach_on q d (ground q (fst d) p)) (labels (classes q))) (places
    q (map fst ensemble)))).
  - rewrite by_place_map. apply closed_form_everywhere.
  - intros d Hd. apply reaches_fast_are; [assumption |]. rewrite Forall_forall in Hw. auto.
Qed.

(** THEOREM. The label that the checker gives is the label of the ensemble. *)
Theorem judge_label : forall q cl kinds records y holds, judge (prepare q cl kinds) records = Some (y, holds) ->
  y = ensemble_label q (combine kinds records).
Proof. intros. eapply judge_establishes. eassumption. Qed.

Lemma paper_recovers : forall q ensemble y, asked_well q -> Forall (fitting q) ensemble -> y < classes q ->
  Forall is_voting ensemble ->
  (forall p, In p (placements (image q) (patch q)) -> closed_form (classes q)
     (map (fun d => match d with
                    | (Voting _, Ballots ballots) => paper_reach (classes q) (ground q (fst d) p) ballots
                    | _ => fun _ => true
                    end) ensemble) y = true) ->
  recovers q ensemble y.
Proof.
  intros q ensemble y Hq Hf Hy Hv H p after Hp Ha. specialize (H p Hp).
  apply closed_form_suffices in H; [| assumption]. apply H. clear H. revert Hf Hv.
  induction Ha as [| d d' ensemble after Hd Ha IH]; intros Hf Hv; simpl; constructor.
  - inversion Hf as [| ? ? Hfd _]; inversion Hv as [| ? ? Hvd _]; subst.
    destruct (every_reach_is_sound q p d d' Hq Hfd Hp Hd) as [Hr Hin]. split; [assumption |].
    destruct d as [[cuts | |] [ballots | |]]; simpl in Hvd; try contradiction Hvd.
    apply paper_reach_contains_reach; [apply Hq | exact Hin].
  - inversion Hf; inversion Hv; subst. apply IH; assumption.
Qed.

Lemma verdict_of_one : forall n c, c < n -> verdict n [c] = c.
Proof.
  intros n c H. apply plurality_is. split; [assumption |]. intros k Hk Hne. unfold said. simpl.
  rewrite N.eqb_refl. assert ((k =? c) = false) as -> by lia. ranks.
Qed.

Lemma touching_is_voting : forall q kinds ensemble, judged_well q kinds ensemble ->
  forallb is_touching (map (survey_of q (places q kinds)) kinds) = true -> Forall is_voting ensemble.
Proof.
  intros q kinds ensemble [_ [<- [Hf _]]] H. rewrite forallb_map_to, forallb_map_to, forallb_forall in H.
  apply Forall_forall. intros d Hd. specialize (H d Hd). rewrite Forall_forall in Hf. specialize (Hf d Hd).
  destruct d as [[cuts | |] [ballots | |]]; simpl in *; try discriminate H; try contradiction Hf. exact I.
Qed.

(** THEOREM. What the checker says yes to is true: [y] is the label of the ensemble, and what the claim promises holds
    against every placement of the patch and everything that it may show. *)
Theorem check_is_sound : forall q cl kinds records y, check (prepare q cl kinds) records y = true ->
  ensemble_label q (combine kinds records) = y /\ promised q cl (combine kinds records) y.
Proof.
  intros q cl kinds records y H. unfold check in H.
  destruct (judge (prepare q cl kinds) records) as [[label []] |] eqn:J; try discriminate H. apply N.eqb_eq in H.
  subst label.
  destruct (judge_establishes _ _ _ _ _ _ J) as [Hw [Hy [Hlt Hc]]].
  set (ensemble := combine kinds records) in *. split; [congruence |]. symmetry in Hc. clear J. clearbody ensemble.
  pose proof Hw as Hwell. destruct Hw as [Hq [Hk [Hf Hw]]].
  destruct cl as [| | | slack].
  - apply certified_recovers; try assumption. apply (exact_claim q kinds ensemble y); assumption.
  - apply andb_true_iff in Hc. destruct Hc as [Ht Hc].
    cbn [p_question p_claim p_surveys p_labels p_places prepare] in *.
    pose proof (touching_is_voting q kinds ensemble Hwell Ht) as Hv. subst kinds.
    apply paper_recovers; try assumption.
    rewrite map2_fst in Hc.
    set (f := fun (d : defender) marks => match d with
                    | (Voting _, Ballots ballots) => paper_reach (classes q) marks ballots
                    | _ => fun _ => true
                    end).
    rewrite (map_ext_in _ (fun d => map (fun p => map (f d (ground q (fst d) p)) (labels (classes q))) (places q (map
      fst ensemble)))) in Hc.
    + rewrite by_place_map in Hc. pose proof (proj1 (closed_form_everywhere q f ensemble y) Hc) as Hcf.
      intros p Hp. exact (Hcf p Hp).
    + intros d Hd. rewrite Forall_forall in Hw, Hv. specialize (Hw d Hd). specialize (Hv d Hd).
      destruct d as [[cuts | |] [ballots | |]]; simpl in Hv; try contradiction Hv.
      apply paper_reaches_fast_are; [apply Hq | exact Hw].
  - unfold certified in Hc. cbn [p_question p_claim p_surveys p_labels p_places prepare] in Hc. subst kinds.
    destruct ensemble as [| d [| ? ?]]; cbn [map] in Hc; try discriminate Hc.
    inversion Hw as [| ? ? Hwd _]; subst. inversion Hf as [| ? ? Hfd _]; subst.
    destruct d as [[cuts | |] [ballots | |]]; simpl in Hc; try discriminate Hc.
    change (margin_fast q (labels (classes q)) (survey_of q (places q [Voting cuts]) (Voting cuts)) (Voting cuts,
      Ballots ballots) = true) in Hc.
    rewrite margin_fast_is in Hc by (try apply Hq; exact Hwd).
    intros p after Hp Ha. inversion Ha as [| ? d' ? ? [Hkd Hd] Hnil]; subst. inversion Hnil; subst.
    destruct d' as [k' r']. simpl in Hkd. subst k'. destruct r' as [after | |]; simpl in Hd; try contradiction Hd.
    unfold ensemble_label. cbn [map label_of]. f_equal. f_equal.
    destruct (places_stand_for_all q [Voting cuts] p Hp) as [r [Hr [_ Hg]]].
    eapply (margin_certifies (classes q) _ (marks_of q (Voting cuts) p) ballots); [apply Hq | | | exact Hc | exact Hd].
    + exact (eq_trans (marks_length q cuts p) (eq_sym Hfd)).
    + apply largest_above. apply in_map_iff. exists r. split; [| exact Hr].
      rewrite <- (Hg (Voting cuts)) by (left; reflexivity). reflexivity.
  - destruct slack as [| s].
    + unfold certified in Hc. cbn [p_question p_claim p_surveys p_labels p_places prepare] in Hc. subst kinds.
      rewrite map2_fst in Hc.
      rewrite (map_ext_in _ (fun d => map (fun p => map (may_say_on q d (ground q (fst d) p)) (labels (classes q)))
        (places q (map fst ensemble)))) in Hc.
      * rewrite by_place_map in Hc. apply certified_detects; try assumption.
        exact (proj1 (closed_form_everywhere q (may_say_on q) ensemble y) Hc).
      * intros d Hd. rewrite Forall_forall in Hw. rewrite withouts_fast_are; [| apply Hq | auto].
        apply map_ext. intros p. destruct d as [[cuts | |] [ballots | |]]; reflexivity.
    + unfold certified in Hc. cbn [p_question p_claim p_surveys p_labels p_places prepare] in Hc. subst kinds.
      destruct ensemble as [| d [| ? ?]]; cbn [map] in Hc; try discriminate Hc.
      inversion Hw as [| ? ? Hwd _]; subst. apply andb_true_iff in Hc. destruct Hc as [Ht Hc].
      exists d. split; [reflexivity |].
      assert (Hv : is_voting d).
      { destruct d as [[cuts | |] [ballots | |]]; simpl in Ht; try discriminate Ht; inversion Hf as [| ? ? Hfd _];
          simpl in Hfd; try contradiction Hfd. exact I. }
      rewrite withouts_fast_are in Hc; [| apply Hq | exact Hwd].
      destruct d as [[cuts | |] [ballots | |]]; simpl in Hv; try contradiction Hv.
      rewrite forallb_map_to, forallb_forall in Hc.
      apply certified_detects_with_slack; [assumption | assumption |]. intros p Hp.
      destruct (places_stand_for_all q [Voting cuts] p Hp) as [r [Hr [_ Hg]]].
      specialize (Hc r Hr). specialize (Hg (Voting cuts) (or_introl eq_refl)). cbn [ground fst] in Hg, Hc.
      apply leads_iff_only; [assumption |]. rewrite Hg. apply only_iff.
      unfold only_fast in Hc. rewrite map2_map_r, forallb_map in Hc. exact Hc.
Qed.

(** THEOREM. For voting defenders and pools the checker is complete: a recovery that holds, it says yes to. So where it
    says no, some patch of ballots changes the label. *)
Theorem check_is_complete : forall q kinds records y holds,
  judge (prepare q Exact kinds) records = Some (y, holds) ->
  Forall is_voting (combine kinds records) -> recovers q (combine kinds records) y ->
  check (prepare q Exact kinds) records y = true.
Proof.
  intros q kinds records y holds J Hv H. unfold check. rewrite J.
  destruct (judge_establishes _ _ _ _ _ _ J) as [Hw [Hy [Hlt Hc]]]. pose proof Hw as Hwell.
  destruct Hw as [Hq [Hk [Hf Hw]]].
  assert (holds = true) as ->; [| apply N.eqb_refl].
  rewrite Hc. apply (exact_claim q kinds); [assumption |].
  apply (recovery_is_exact q (combine kinds records) y); assumption.
Qed.

(** ** The alert *)
Lemma standing_as_recorded : forall c marks ballots, kept c marks (map as_recorded ballots) = standing c marks ballots.
Proof.
  intros c marks ballots. unfold kept, standing. revert ballots.
  induction marks as [| m marks IH]; intros [| b ballots]; simpl; try reflexivity. rewrite IH, orb_false_r. reflexivity.
Qed.

Lemma said_without_is : forall q ps d, 0 < classes q -> well q (survey_of q ps (fst d)) d = true ->
  said_without (labels (classes q)) (survey_of q ps (fst d)) d
  = map (fun p => map (possible (without_of q p d)) (labels (classes q))) ps.
Proof.
  intros q ps [[cuts | guarded stride | cut mask share] [ballots | weak table | rows]] Hpos H;
    pose proof (well_is_fitting q ps _ H) as Hf; simpl in H; try discriminate H;
    cbn [fst survey_of said_without without_of].
  - rewrite counted_at_is, map_map by (rewrite map_length; exact Hf). apply map_ext. intros p.
    unfold counts. cbn [c_kept]. rewrite leader_is_plurality by assumption. cbn [fst one_or_all].
    replace (plurality (classes q) _) with (without (classes q) (marks_of q (Voting cuts) p) ballots); [reflexivity |].
    apply plurality_ext; [| assumption]. intros c _. symmetry. apply standing_as_recorded.
  - rewrite map_map. apply map_ext. intros p. rewrite ground_fast_is_ground. cbn [ground fst marks_of].
    rewrite first_alone by apply (marks_of_masks q ps guarded stride weak table p H).
    destruct (masking_without _ _); reflexivity.
  - rewrite map_map. reflexivity.
Qed.

Lemma without_of_ground : forall q p r (d : defender), ground q (fst d) p = ground q (fst d) r ->
  without_of q p d = without_of q r d.
Proof.
  intros q p r [[cuts | guarded stride | cut mask share] [ballots | weak table | rows]] H; try reflexivity;
    cbn [without_of fst ground] in *; rewrite H; reflexivity.
Qed.

(** THEOREM. The checker's alert is the ensemble's alert. *)
Theorem alert_is_right : forall q kinds records y holds, judge (prepare q (Detect 0) kinds) records = Some (y, holds) ->
  alerted (prepare q (Detect 0) kinds) records y = ensemble_alert q (combine kinds records).
Proof.
  intros q kinds records y holds J. destruct (judge_establishes _ _ _ _ _ _ J) as [[[_ Hpos] [Hk [_ Hw]]] [Hy _]].
  unfold alerted, ensemble_alert. cbn [p_question p_claim p_kinds p_surveys p_labels p_places prepare].
  set (ensemble := combine kinds records) in *. clearbody ensemble. clear J. subst kinds.
  rewrite map2_fst, (map_ext_in _ (fun d => map (fun p => map (possible (without_of q p d)) (labels (classes q)))
    (places q (map fst ensemble)))).
  2: { intros d Hd. rewrite Forall_forall in Hw. apply said_without_is; auto. }
  rewrite by_place_map. rewrite <- Hy.
  assert (E : forall p, closed_form_fast (labels (classes q)) (map (fun d => map (possible (without_of q p d)) (labels
    (classes q))) ensemble) y
            = closed_form (classes q) (map (fun d => possible (without_of q p d)) ensemble) y).
  { intros p. rewrite <- closed_form_fast_is_closed_form, map_map. reflexivity. }
  apply eq_true_iff_eq. rewrite !existsb_exists. split.
  - intros [answers [Hin H]]. apply in_map_iff in Hin. destruct Hin as [p [<- Hp]]. exists p.
    split; [eapply places_are_placements; eassumption |]. rewrite <- E. exact H.
  - intros [p [Hp H]]. destruct (places_stand_for_all q (map fst ensemble) p Hp) as [r [Hr [_ Hg]]].
    exists (map (fun d => map (possible (without_of q r d)) (labels (classes q))) ensemble).
    split; [apply in_map_iff; eauto |]. rewrite E.
    rewrite (map_ext_in _ (fun d => possible (without_of q p d))); [exact H |].
    intros d Hd. f_equal. apply without_of_ground. symmetry. apply Hg. apply in_map. assumption.
Qed.

Theorem slack_alert_is_right : forall q s cuts ballots y holds,
  judge (prepare q (Detect (N.pos s)) [Voting cuts]) [Ballots ballots] = Some (y, holds) ->
  alerted (prepare q (Detect (N.pos s)) [Voting cuts]) [Ballots ballots] y = slack_alert q (N.pos s) (Voting cuts,
    Ballots ballots).
Proof.
  intros q s cuts ballots y holds J.
  destruct (judge_establishes _ _ _ _ _ _ J) as [[[_ Hpos] [_ [Hf Hw]]] [Hy [Hlt _]]].
  unfold alerted, slack_alert, alert.
  cbn [p_question p_claim p_kinds p_surveys p_labels p_places prepare combine map alarms survey_of].
  inversion Hf as [| ? ? Hfd _]; subst. simpl in Hfd.
  assert (Hv : vote (classes q) ballots = ensemble_label q (combine [Voting cuts] [Ballots ballots])).
  { unfold ensemble_label. cbn [combine map label_of]. symmetry. apply verdict_of_one. apply vote_in_range.
    assumption. }
  rewrite <- Hv in *. set (y := vote (classes q) ballots) in *.
  rewrite counted_at_is by (rewrite map_length; exact Hfd).
  assert (E : forall p, existsb (fun b => b) (map2 (fun c v => negb (c =? y) && beats c v y
                (entry_of y (labels (classes q)) (c_kept (counts (labels (classes q)) (ground q (Voting cuts) p) (map
                  as_recorded ballots))) + N.pos s))
                (labels (classes q)) (c_kept (counts (labels (classes q)) (ground q (Voting cuts) p) (map as_recorded
                  ballots))))
              = alarm (classes q) (N.pos s) (marks_of q (Voting cuts) p) ballots y).
  { intros p. unfold counts. cbn [c_kept]. rewrite entry_of_map by (apply in_labels; assumption). rewrite map2_map_r.
    unfold alarm. apply eq_true_iff_eq. rewrite !existsb_exists. split.
    - intros [b [Hin ->]]. apply in_map_iff in Hin. destruct Hin as [c [Hb Hc]]. exists c. split; [assumption |].
      rewrite !standing_as_recorded in Hb. exact Hb.
    - intros [c [Hc Hb]]. exists true. split; [| reflexivity]. apply in_map_iff. exists c. split; [| assumption].
      rewrite !standing_as_recorded. exact Hb. }
  apply eq_true_iff_eq. rewrite !existsb_exists. split.
  - intros [state [Hin H]]. apply in_map_iff in Hin. destruct Hin as [p [<- Hp]]. rewrite E in H.
    exists (marks_of q (Voting cuts) p). split; [| exact H]. apply in_map_iff. exists p. split; [reflexivity |].
    eapply places_are_placements. eassumption.
  - intros [marks [Hin H]]. apply in_map_iff in Hin. destruct Hin as [p [<- Hp]].
    destruct (places_stand_for_all q [Voting cuts] p Hp) as [r [Hr [_ Hg]]].
    exists (counts (labels (classes q)) (ground q (Voting cuts) r) (map as_recorded ballots)).
    split; [apply in_map_iff; eauto |]. rewrite E. specialize (Hg (Voting cuts) (or_introl eq_refl)).
    cbn [ground] in Hg. rewrite <- Hg. exact H.
Qed.
