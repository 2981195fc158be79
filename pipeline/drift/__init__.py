"""How far a candidate's answers lie from the reference's."""
