(** The checker as OCaml. Only types that are one to one are replaced (bool, option, list, pairs); numbers stay Coq's
    own. *)
From Coq Require Import Extraction ExtrOcamlBasic.
From Majorcert Require Import Check.

Extraction Language OCaml.
Extraction "build/checker.ml" prepare judge alerted regions.
