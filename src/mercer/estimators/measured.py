"""What was measured to choose between methods: on two AVX-512 cores of an AMD EPYC, and an H200.

On other machines the choices differ little, and no result depends on them beyond rounding.
"""

# Multiplications from which a Nyström fit takes sums over a part of the points and some passes over
# all of them faster than sums over all.
PASSES_FROM_MULTIPLICATIONS = 2e10
# Multiplications that take the time of one value of a kernel, besides one for each feature.
MULTIPLICATIONS_PER_VALUE = 15
# The same of a value in float32 on a GPU, and for each of its features.
GPU_MULTIPLICATIONS_PER_VALUE, GPU_MULTIPLICATIONS_PER_FEATURE = 3, 0.1

# Cholesky factorisations that take the time of one eigendecomposition.
CHOLESKYS_PER_EIGH = 20
# Points from which a factorisation in float32, refined to float64, takes half the time.
REFINED_FROM_POINTS = 3000
# Features from which refinement is faster on a stored matrix than on its tiles.
STORED_FROM_FEATURES = 64
# Float32 points and targets from which conjugate gradients may reach float32 accuracy before a
# factorisation is done: tried where half of its time is enough for so many steps.
STEPS_FROM_POINTS, ENOUGH_STEPS = 6000, 20

# Seconds that one pair of classes takes in Python, and one entry of a stored Gram matrix.
SECONDS_PER_PAIR, SECONDS_PER_ENTRY = 1e-4, 2.5e-9
