"""The stamp: what a trainer declares about itself when it saves (``contract_stamp.py``, to be copied into the trainer), and its reader."""
