"""The page, the terminal story, tables and figures: functions of evidence and verdict. Nothing here knows torch."""
