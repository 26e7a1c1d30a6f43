(* Reads what `majorcert export` writes and judges every image: number, label, yes or no; for detection also alert or
   silent. Nothing here is proved: it turns words into the checker's data, and the checker's answers into words. *)
open Checker

let fail line message =
  Printf.eprintf "checker: line %d: %s\n" line message;
  exit 2

let rec positive k = if k = 1 then XH else if k land 1 = 1 then XI (positive (k lsr 1)) else XO (positive (k lsr 1))
let number k = if k = 0 then N0 else Npos (positive k)
let rec of_positive = function XH -> 1 | XO p -> 2 * of_positive p | XI p -> (2 * of_positive p) + 1
let of_number = function N0 -> 0 | Npos p -> of_positive p

let line_number = ref 0

let whole word =
  match int_of_string_opt word with
  | Some k when k >= 0 && String.for_all (fun c -> c >= '0' && c <= '9') word -> number k
  | _ -> fail !line_number (Printf.sprintf "expected a whole number, got '%s'" word)

let words line = List.filter (fun word -> word <> "") (String.split_on_char ' ' line)

(* The next line that is not empty. *)
let rec next () =
  match input_line stdin with
  | line ->
      incr line_number;
      let found = words line in
      if found = [] then next () else Some found
  | exception End_of_file -> None

let expect key =
  match next () with
  | Some (word :: rest) when word = key -> rest
  | Some (word :: _) -> fail !line_number (Printf.sprintf "expected '%s', got '%s'" key word)
  | _ -> fail !line_number (Printf.sprintf "expected '%s', the file ends" key)

let pair key =
  match expect key with
  | [ a; b ] -> (whole a, whole b)
  | _ -> fail !line_number (Printf.sprintf "expected '%s' and two numbers" key)

let strategy name length stride =
  match name with
  | "rows" -> Rows (whole length, whole stride)
  | "columns" -> Columns (whole length, whole stride)
  | "blocks" -> Blocks (whole length, whole stride)
  | _ -> fail !line_number (Printf.sprintf "expected rows, columns or blocks, got '%s'" name)

(* A defender: its kind, and what a vote of each ballot is worth. *)
type defender = { kind : kind; worths : n list }

let rec pooled = function
  | [] -> []
  | name :: length :: stride :: worth :: rest -> (strategy name length stride, whole worth) :: pooled rest
  | _ -> fail !line_number "a strategy is: rows|columns|blocks length stride worth"

let defender image = function
  | "votes" :: (_ :: _ as strategies) ->
      let parts = pooled strategies in
      let worths (cut, worth) = List.map (fun _ -> worth) (regions image cut) in
      { kind = Voting (List.map fst parts); worths = List.concat_map worths parts }
  | [ "pairs"; height; width; stride ] ->
      { kind = DoubleMasking ((whole height, whole width), whole stride); worths = [] }
  | [ "scores"; name; length; stride; height; width; numerator; denominator ] ->
      let share = (whole numerator, whole denominator) in
      { kind = RobustMasking (strategy name length stride, (whole height, whole width), share); worths = [] }
  | _ -> fail !line_number "a defender is: votes ..., pairs height width stride, or scores strategy height width share"

let claim = function
  | [ "exact" ] -> Exact
  | [ "paper" ] -> Paper
  | [ "margin" ] -> Margin
  | [ "detect"; slack ] -> Detect (whole slack)
  | _ -> fail !line_number "a claim is: exact, paper, margin, or detect and a slack"

(* A word, and whether it is marked as fragile by a "!" after it. *)
let marked word =
  let last = String.length word - 1 in
  if word.[last] = '!' then (String.sub word 0 last, true) else (word, false)

(* "3", "3,5", "-" for none. *)
let ballot worth word =
  let said, fragile = marked word in
  let says = if said = "-" then [] else List.map whole (String.split_on_char ',' said) in
  { worth; fragile; says }

let ballots worths found =
  let expected, came = (List.length worths, List.length found) in
  if expected <> came then fail !line_number (Printf.sprintf "expected %d ballots, got %d" expected came);
  List.map2 ballot worths found

(* The upper triangle, row by row with the diagonal, as a whole symmetric table; "?" is missing, told as a label that is
   none. The row of a diagonal entry that is marked is weak. *)
let table classes found =
  let entry word = if word = "?" then classes else whole word in
  let entries = Array.of_list (List.map marked found) in
  let rec side n = if n * (n + 1) / 2 >= Array.length entries then n else side (n + 1) in
  let n = side 0 in
  if n * (n + 1) / 2 <> Array.length entries then fail !line_number "this is no triangle of labels";
  let at i j =
    let i, j = (min i j, max i j) in
    entries.((i * n) - (i * (i - 1) / 2) + j - i)
  in
  Pairs (List.init n (fun i -> snd (at i i)), List.init n (fun i -> List.init n (fun j -> entry (fst (at i j)))))

let record classes defender found =
  match defender.kind with
  | Voting _ -> Ballots (ballots defender.worths found)
  | DoubleMasking _ -> table classes found
  | RobustMasking _ -> Scores (List.map (fun row -> List.map whole (String.split_on_char ',' row)) found)


(* One question: its header, then its images. *)
let rec question () =
  let image = pair "size" in
  let classes =
    match expect "classes" with [ n ] -> whole n | _ -> fail !line_number "expected one number of classes" in
  let patch = pair "patch" in
  let claim = claim (expect "claim") in
  let n = match expect "defenders" with [ n ] -> of_number (whole n) | _ -> fail !line_number "expected one number" in
  let members = List.init n (fun _ -> defender image (expect "defender")) in
  let plan = prepare { image; classes; patch } claim (List.map (fun d -> d.kind) members) in
  images classes claim members plan

and images classes claim members plan =
  match next () with
  | Some [ "image"; name ] ->
      let records = List.map (fun d -> record classes d (expect "record")) members in
      (match judge plan records with
      | None -> fail !line_number (Printf.sprintf "image %s: the records do not fit the defenders" name)
      | Some (label, holds) ->
          let answer = if holds then "yes" else "no" in
          let alert =
            match claim with
            | Detect _ -> if alerted plan records label then " alert" else " silent"
            | _ -> ""
          in
          Printf.printf "%s %d %s%s\n" name (of_number label) answer alert);
      images classes claim members plan
  | Some [ "question" ] -> question ()
  | Some (word :: _) -> fail !line_number (Printf.sprintf "expected 'image' or 'question', got '%s'" word)
  | _ -> ()

let () =
  Gc.set { (Gc.get ()) with minor_heap_size = 1 lsl 23 };
  match next () with
  | Some [ "majorcert-export"; "1" ] -> ignore (expect "question"); question ()
  | _ -> fail !line_number "expected 'majorcert-export 1', as `majorcert export` writes it"
