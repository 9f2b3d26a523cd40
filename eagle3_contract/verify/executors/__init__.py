"""Many samples on the training path: in this process, in several, or on a Ray cluster; the same counts everywhere.

Every sample is read, forwarded alone by one thread, and reduced to whole numbers, so that neither the number of workers nor the order of
their answers can change a figure.
"""
