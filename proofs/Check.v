(** The checker: evidence and a claim in, yes or no out; proved sound, and complete where the certificate is exact.

    The geometry of a question is worked out once ([prepare]), then each image is judged ([judge]). *)
From Majorcert Require Export Fast.

Inductive claim :=
  | Exact                   (** recovery, with exact reaches (Theorem 2) *)
  | Paper                   (** recovery, with the paper's larger reaches; voting only *)
  | Margin                  (** recovery of one voting defender, by its margin *)
  | Detect (slack : N).     (** detection; a slack of more than 0 is for one voting defender or pool *)

(** ** Placements that look alike to all members are judged once *)
Definition ground_fast (q : question) (k : kind) (p : pixel) : list bool :=
  match k with
  | Voting cuts => flat_map (fun cut => touched_fast (image q) (patch q) cut p) cuts
  | DoubleMasking guarded stride => covered (patch q) (masks (image q) guarded stride) p
  | RobustMasking cut mask _ => touched_fast (image q) mask cut (around (image q) mask p)
  end.

Definition looks (q : question) (kinds : list kind) (p : pixel) : list (list bool) :=
  map (fun k => ground_fast q k p) kinds.
Definition places (q : question) (kinds : list kind) : list pixel :=
  map fst (distinct (fun a b => same_list same_marks (snd a) (snd b)) []
    (map (fun p => (p, looks q kinds p)) (placements (image q) (patch q)))).

(** What is known of a kind before any image is seen: how many ballots, masks or rows its record has, and the marks at
    the places, one after the other. *)
Inductive survey :=
  | Touching (n : nat) (moves : list change)
  | Hiding (n : nat) (marks : list (list bool))
  | Within (n : nat) (windows marks : list (list bool)).

Definition survey_of (q : question) (ps : list pixel) (k : kind) : survey :=
  match k with
  | Voting cuts =>
      let n := length (flat_map (regions (image q)) cuts) in
      Touching n (changes (repeat false n) (map (ground_fast q k) ps))
  | DoubleMasking guarded stride => Hiding (length (masks (image q) guarded stride)) (map (ground_fast q k) ps)
  | RobustMasking cut mask _ =>
      Within (length (regions (image q) cut))
        (distinct same_marks [] (map (touched_fast (image q) mask cut) (placements (image q) mask)))
        (map (ground_fast q k) ps)
  end.

Record plan := Plan {
  p_question : question; p_claim : claim; p_kinds : list kind;
  p_labels : list label; p_places : list pixel; p_surveys : list survey }.

Definition prepare (q : question) (cl : claim) (kinds : list kind) : plan :=
  let ps := places q kinds in
  Plan q cl kinds (labels (classes q)) ps (map (survey_of q ps) kinds).

(** ** Is the record what its kind asks for? *)
Fixpoint symmetric_fast (n : nat) (table : list (list label)) : bool :=
  match n, table with
  | S n, row :: rows => same_list N.eqb (tl row) (map (hd 0) rows) && symmetric_fast n (map (@tl label) rows)
  | _, _ => true
  end.

(** A row of the table, with its number: its own label is there,
  and entries are missing only if it is known to be mixed. *)
Definition row_fits (n : N) (i : nat) (row : list label) : bool :=
  let own := nth i row 0 in
  (own <? n) && (forallb (fun c => c <? n) row || existsb (fun c => (c <? n) && negb (c =? own)) row).
Definition unanimous_row (i : nat) (row : list label) : bool :=
  let own := nth i row 0 in forallb (fun c => c =? own) row.

Definition with_number {A : Type} (l : list A) : list (nat * A) := combine (seq 0 (length l)) l.
Definition table_fits (n : N) (table : list (list label)) : bool :=
  forallb (fun row => Nat.eqb (length row) (length table)) table && symmetric_fast (length table) table &&
  forallb (fun numbered_row => row_fits n (fst numbered_row) (snd numbered_row)) (with_number table).

Definition well (q : question) (s : survey) (d : defender) : bool :=
  match s, d with
  | Touching n _, (Voting _, Ballots ballots) => Nat.eqb (length ballots) n
  | Hiding n _, (DoubleMasking _ _, Pairs weak table) =>
      Nat.eqb (length table) n && negb (Nat.eqb n 0) && Nat.eqb (length weak) n && table_fits (classes q) table
  | Within n _ _, (RobustMasking _ mask share, Scores rows) =>
      fits (image q) mask && (fst share <? snd share) && Nat.eqb (length rows) n
  | _, _ => false
  end.

(** ** What each kind says, place by place *)
Definition points_fast (cs : list label) (ballots : list ballot) : list N :=
  fold_left (fun votes b => map2 (fun (n : bool) v => if n then v + worth b else v) (map (fun c => names c b) cs) votes)
    ballots (map (fun _ => 0) cs).

Definition label_fast (q : question) (cs : list label) (s : survey) (d : defender) : label :=
  match s, d with
  | Touching _ _, (Voting _, Ballots ballots) => fst (leader cs (points_fast cs ballots))
  | Within _ windows _, (RobustMasking _ _ share, Scores rows) => masked_label (classes q) share windows rows
  | _, _ => label_of q d
  end.

Definition counted_at (cs : list label) (moves : list change) (ballots : list ballot) : list counted :=
  follow (numbered 1 (map (weigh cs) ballots)) (start cs ballots) moves.

Fixpoint first_of {A : Type} (marks holds : list bool) (values : list A) : option A :=
  match marks, holds, values with
  | m :: marks, h :: holds, v :: values => if m && h then Some v else first_of marks holds values
  | _, _, _ => None
  end.

Definition one_or_all (cs : list label) (y : option label) : list bool :=
  match y with
  | Some y => map (fun c => c =? y) cs
  | None => map (fun _ => true) cs
  end.

(** The reach at each place. *)
Definition reaches_fast (q : question) (cs : list label) (s : survey) (d : defender) : list (list bool) :=
  match s, d with
  | Touching _ moves, (Voting _, Ballots ballots) =>
      map (fun at_place => elected_fast cs (c_kept at_place) (c_loose at_place)) (counted_at cs moves ballots)
  | Hiding _ sequence, (DoubleMasking _ _, Pairs weak table) =>
      let single := alone table in
      let agreed := map2 (fun w row => negb w && unanimous_row (fst row) (snd row)) weak (with_number table) in
      map (fun marks => one_or_all cs (first_of marks agreed single)) sequence
  | Within _ windows sequence, (RobustMasking _ mask share, Scores rows) =>
      if within (patch q) mask then
        let g := masked_label (classes q) share windows rows in
        map (fun marks =>
               let least := stay g marks rows - stay_loudest windows g marks rows in
               map (fun c => (c =? g) || beats c (at_most share (stay c marks rows)) g least) cs) sequence
      else map (fun _ => map (fun _ => true) cs) sequence
  | _, _ => []
  end.

(** The paper's reach at each place. *)
Definition paper_reaches_fast (q : question) (cs : list label) (s : survey) (d : defender) : list (list bool) :=
  match s, d with
  | Touching _ moves, (Voting _, Ballots ballots) =>
      let g := label_fast q cs s d in
      map (fun at_place =>
             let least := entry_of g cs (c_kept at_place) in
             map2 (fun c v => (c =? g) || beats c (v + c_loose at_place) g least) cs (c_kept at_place))
        (counted_at cs moves ballots)
  | _, _ => []
  end.

(** What it may say without, at each place. *)
Definition withouts_fast (cs : list label) (slack : N) (s : survey) (d : defender) : list (list bool) :=
  match s, d with
  | Touching _ moves, (Voting _, Ballots ballots) =>
      map (fun at_place => elected_fast cs (c_kept at_place) (c_doubtful at_place + slack))
        (counted_at cs moves ballots)
  | Hiding _ sequence, (DoubleMasking _ _, Pairs weak table) =>
      let single := map2 (fun (w : bool) c => if w then None else Some c) weak (alone table) in
      let always := map (fun _ => true) single in
      map (fun marks => match first_of marks always single with
                        | Some answer => one_or_all cs answer
                        | None => one_or_all cs None
                        end) sequence
  | Within _ _ sequence, (RobustMasking _ _ _, Scores _) => map (fun _ => one_or_all cs None) sequence
  | _, _ => []
  end.

Definition margin_fast (q : question) (cs : list label) (s : survey) (d : defender) : bool :=
  match s, d with
  | Touching _ moves, (Voting _, Ballots ballots) =>
      let g := label_fast q cs s d in
      let rest := start cs ballots in
      let touched_at at_place := c_loose at_place - c_doubtful at_place in
      let most := largest (map touched_at (counted_at cs moves ballots)) in
      let own := entry_of g cs (c_kept rest) in
      forallb (fun b => b) (map2 (fun c v =>
        (c =? g) || (2 * most + c_loose rest + v + (if c <? g then 1 else 0) <=? own)) cs (c_kept rest))
  | _, _ => false
  end.

(** From one list of places for each member to one list of members for each place. *)
Definition by_place {A : Type} (ps : list pixel) (rows : list (list A)) : list (list A) :=
  fold_right (map2 cons) (map (fun _ => []) ps) rows.

Definition is_touching (s : survey) : bool := match s with Touching _ _ => true | _ => false end.

Definition certified (pl : plan) (ensemble : list defender) (y : label) : bool :=
  let q := p_question pl in
  let cs := p_labels pl in
  let holds rows := forallb (fun reaches => closed_form_fast cs reaches y) (by_place (p_places pl) rows) in
  match p_claim pl with
  | Exact => holds (map2 (reaches_fast q cs) (p_surveys pl) ensemble)
  | Paper => forallb is_touching (p_surveys pl) && holds (map2 (paper_reaches_fast q cs) (p_surveys pl) ensemble)
  | Margin =>
      match p_surveys pl, ensemble with
      | [s], [d] => margin_fast q cs s d
      | _, _ => false
      end
  | Detect 0 => holds (map2 (withouts_fast cs 0) (p_surveys pl) ensemble)
  | Detect slack =>
      match p_surveys pl, ensemble with
      | [s], [d] => is_touching s && forallb (only_fast cs y) (withouts_fast cs slack s d)
      | _, _ => false
      end
  end.

(** ** The judgement on one image: its label, and whether the claim holds for it; nothing if it cannot be judged *)
Definition judge (pl : plan) (records : list record) : option (label * bool) :=
  let q := p_question pl in
  let ensemble := combine (p_kinds pl) records in
  if fits (image q) (patch q) && (0 <? classes q) && Nat.eqb (length records) (length (p_kinds pl)) &&
     forallb (fun b => b) (map2 (well q) (p_surveys pl) ensemble)
  then
    let y := verdict (classes q) (map2 (label_fast q (p_labels pl)) (p_surveys pl) ensemble) in
    Some (y, certified pl ensemble y)
  else None.

Definition check (pl : plan) (records : list record) (y : label) : bool :=
  match judge pl records with
  | Some (label, true) => label =? y
  | _ => false
  end.

(** What a claim promises. *)
Definition promised (q : question) (cl : claim) (ensemble : list defender) (y : label) : Prop :=
  match cl with
  | Detect 0 => detects q ensemble y
  | Detect slack => exists d, ensemble = [d] /\ slack_detects q slack d y
  | _ => recovers q ensemble y
  end.

(** ** The alert on the image itself, as recorded *)
Definition as_recorded (b : ballot) : ballot := Ballot (worth b) false (says b).

Definition said_without (cs : list label) (s : survey) (d : defender) : list (list bool) :=
  match s, d with
  | Touching _ moves, (Voting _, Ballots ballots) =>
      map (fun at_place => one_or_all cs (Some (fst (leader cs (c_kept at_place)))))
        (counted_at cs moves (map as_recorded ballots))
  | Hiding _ sequence, (DoubleMasking _ _, Pairs _ table) =>
      let single := alone table in
      let always := map (fun _ => true) single in
      map (fun marks => one_or_all cs (first_of marks always single)) sequence
  | Within _ _ sequence, (RobustMasking _ _ _, Scores _) => map (fun _ => one_or_all cs None) sequence
  | _, _ => []
  end.

Definition alarms (cs : list label) (slack : N) (y : label) (s : survey) (d : defender) : bool :=
  match s, d with
  | Touching _ moves, (Voting _, Ballots ballots) =>
      existsb (fun at_place =>
          let own := entry_of y cs (c_kept at_place) in
          existsb (fun b => b) (map2 (fun c v => negb (c =? y) && beats c v y (own + slack)) cs (c_kept at_place)))
        (counted_at cs moves (map as_recorded ballots))
  | _, _ => true
  end.

Definition alerted (pl : plan) (records : list record) (y : label) : bool :=
  let q := p_question pl in
  let cs := p_labels pl in
  let ensemble := combine (p_kinds pl) records in
  match p_claim pl with
  | Detect 0 =>
      existsb (fun answers => negb (closed_form_fast cs answers y))
        (by_place (p_places pl) (map2 (said_without cs) (p_surveys pl) ensemble))
  | Detect slack =>
      match p_surveys pl, ensemble with
      | [s], [d] => alarms cs slack y s d
      | _, _ => true
      end
  | _ => false
  end.
