"""What released fields give away about withheld ones: inference channels, measured by prediction (methods#inference)."""
