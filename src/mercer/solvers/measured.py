"""What was measured to choose between solvers, on two cores of an AMD EPYC with AVX-512."""

# Steps of `smo` that take as long as the interior-point method on m points, divided by m² or m³.
STEPS_PER_SQUARE, STEPS_PER_CUBE = 0.1, 1e-4
# Nanoseconds of a step of `smo` for each variable of its working set. Of active sets: of a round,
# besides for each entry of K, and for each entry of the free part; and per m³ of its factorisation.
NS_PER_STEP = 5.5
NS_PER_ROUND, NS_PER_ENTRY, NS_PER_FREE_ENTRY, NS_PER_CUBE = 5e5, 0.8, 2.0, 0.004
