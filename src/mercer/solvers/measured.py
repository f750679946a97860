"""What was measured to choose between solvers, on two cores of an AMD EPYC with AVX-512."""

# Steps of `smo` that take as long as the interior-point method on m points, divided by m² or m³.
STEPS_PER_SQUARE, STEPS_PER_CUBE = 0.1, 1e-4
# Nanoseconds of a step of `smo` for each variable of its working set; and of a round of active sets
# for each entry of K, of its free part, and per m³ of that part's factorisation.
NS_PER_STEP, NS_PER_ENTRY, NS_PER_FREE_ENTRY, NS_PER_CUBE = 5.5, 1.6, 2.0, 0.004
