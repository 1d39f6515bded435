"""Published codes and coefficients, with their sources."""

from __future__ import annotations

N = None

# Krippendorff, "Computing Krippendorff's Alpha-Reliability", 2011, section E: 4
# observers, 12 units; also the matrix `nmm` in the documentation of R's package irr.
# Alpha is printed there with three digits.
KRIPPENDORFF_2011 = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, N, N, N],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, N, 3],
    [N, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, N],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, N],
]
ALPHA_2011 = {"nominal": 0.743, "ordinal": 0.815, "interval": 0.849, "ratio": 0.797}
# The same by hand: of the 40 pairable codes 9, 13, 10, 5 and 3 have the values 1 to 5,
# and 8 of the coincidences are between different values.
ALPHA_2011_NOMINAL = 1 - 39 * 8 / (40**2 - (9**2 + 13**2 + 10**2 + 5**2 + 3**2))

# Gwet, Handbook of Inter-Rater Reliability, 4th edition, 2014: 4 raters, 12 subjects.
GWET_2014 = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, N, N, N],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, N, N],
    [N, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 3],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, N],
]
GWET_2014_AC1 = {
    "value": 0.77544,
    "se": 0.14295,
    "observed": 0.81818,
    "expected": 0.19032,
}
# The same book: 100 women with a suspected ectopic pregnancy, two abstractors.
GWET_2014_TABLE = [[13, 0, 0], [0, 20, 7], [0, 4, 56]]
GWET_2014_TABLE_AC1 = {"value": 0.84933, "low": 0.76358, "high": 0.93508}

# Cohen 1968, table 1: 200 cases, disagreement weighted by `COHEN_1968_WEIGHTS`. Fleiss,
# Cohen and Everitt 1969 use the same table. Kappa .492, weighted .348.
COHEN_1968 = [[88, 14, 18], [10, 40, 10], [2, 6, 12]]
COHEN_1968_WEIGHTS = [[0, 1, 3], [1, 0, 6], [3, 6, 0]]

# Output of SAS for a table of 3 x 3, with asymptotic standard errors; the tests of
# statsmodels compare with these figures.
SAS_TABLE = [[0, 4, 1], [0, 8, 0], [0, 1, 5]]
SAS_KAPPA = {"value": 0.4842, "se": 0.1380}
SAS_WEIGHTED = {"value": 0.4701, "se": 0.1457}

# R's package irr, data `anxiety`: three raters, 20 subjects, values from 1 to 6.
ANXIETY = [
    [3, 3, 3, 4, 5, 5, 2, 3, 5, 2, 2, 6, 1, 5, 2, 2, 1, 2, 4, 3],
    [3, 6, 4, 6, 2, 4, 2, 4, 3, 3, 2, 3, 3, 3, 2, 2, 1, 3, 3, 4],
    [2, 1, 4, 4, 3, 2, 1, 6, 1, 1, 1, 2, 3, 3, 1, 1, 3, 3, 2, 2],
]
# Results of irr's function kappa2: raters (from 0), weights, kappa.
ANXIETY_KAPPA = [
    ((0, 1), "quadratic", 0.2967651),  # printed as 0.297
    ((0, 1), [0, 0, 0, 1, 1, 1], 0.1891892),
    ((0, 1), [0, 0, 1, 1, 2, 2], 0.2820513),
    ((1, 2), "none", -0.006289308),
    ((1, 2), "linear", 0.1459075),
    ((1, 2), "quadratic", 0.2520325),
    ((1, 2), [0, 0, 1, 1, 2], 0.2391304),
]

# Fleiss 1971, and irr's data `diagnoses`: kappa2 of its second and third rater is 0.631.
DIAGNOSES = [
    list(map(int, "423521311542242311235421421235")),
    list(map(int, "423523334544244311435444421435")),
]
DIAGNOSES_KAPPA = 0.631


def codes_of(table: list[list[int]]) -> tuple[list[int], list[int]]:
    """Return the codes of two coders from a table of counts."""
    pairs = [
        (i, j)
        for i, row in enumerate(table)
        for j, count in enumerate(row)
        for _ in range(count)
    ]
    return [i for i, _ in pairs], [j for _, j in pairs]
