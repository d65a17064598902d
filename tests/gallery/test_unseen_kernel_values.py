"""Example kernels of the second unseen group compute what they should on a few blocks, as in `test_kernel_values`."""

import zlib

import numpy as np
import pytest

from tests.gallery.test_kernel_values import launch, random, words, zeros


def test_dot_product_adds_to_the_result():
    x, y = random(500, dtype=np.float64), random(500, high=3, dtype=np.float64)
    out = launch("dot_product", "dot_product", [2], [64], x, y, np.ones(1), 500)[2]
    assert np.allclose(out, 1 + x @ y)


def test_game_of_life():
    cells = words(6, 3)
    out = launch("game_of_life", "game_of_life", [1, 3], [32, 2], cells, zeros(6, 3, dtype=np.uint32), 3, 6)[1]
    alive = np.unpackbits(cells.view(np.uint8), axis=1, bitorder="little").astype(int)
    shifts = [(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1) if (y, x) != (0, 0)]
    neighbours = sum(np.roll(alive, shift, (0, 1)) for shift in shifts)
    expected = (neighbours == 3) | (neighbours == 2) & (alive == 1)
    assert np.array_equal(np.unpackbits(out.view(np.uint8), axis=1, bitorder="little"), expected)


def test_ray_spheres():
    """A sphere behind another one, one in the way of the light, and one that is lit."""
    centres, radii = np.float32([[0, 0, 4], [0, 0, 6], [1.2, 1.28, 3.04], [-1.5, -1, 4]]), np.float32([1, 1, 0.9, 0.5])
    xs, ys, zs = centres.T.copy()
    out = launch("ray_spheres", "ray_spheres", [2, 1], [16, 16], xs, ys, zs, radii, zeros(16, 32), 4, 32, 16)[4]
    expected = [[shade(centres, radii, column, row) for column in range(32)] for row in range(16)]
    assert np.mean(np.isclose(out, expected, atol=1e-4)) > 0.99
    assert out.min() == 0 and (out == np.float32(0.1)).any() and out.max() > 0.8


def shade(centres, radii, column, row):
    """Brightness of a pixel of an image of 32 x 16."""
    along = np.array([(column + 0.5 - 16) / 16, (row + 0.5 - 8) / 16, 1])
    along /= np.linalg.norm(along)
    distances = hits(centres, radii, np.zeros(3), along)
    if not np.isfinite(distances).any():
        return 0
    found, point = distances.argmin(), distances.min() * along
    light = np.array([0.6, 0.64, -0.48])
    facing = (point - centres[found]) @ light / radii[found]
    is_lit = facing > 0 and not np.isfinite(hits(centres, radii, point, light)).any()
    return 0.1 + 0.9 * facing if is_lit else 0.1


def hits(centres, radii, start, along):
    """Distances from a point to spheres."""
    towards = centres - start
    middle = towards @ along
    root = middle**2 - (towards**2).sum(1) + radii**2
    distances = middle - np.sqrt(np.maximum(root, 0))
    return np.where((root >= 0) & (distances > 1e-3), distances, np.inf)


def test_crc32():
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(0xEDB88320), table >> 1)
    chunks = words(40, 5)
    out = launch("crc32", "crc32", [2], [32], table, chunks, zeros(40, dtype=np.uint32), 40, 5)[2]
    assert out.tolist() == [zlib.crc32(chunk.tobytes()) for chunk in chunks]


def test_binomial_options():
    prices, strikes, factors = np.float32([90, 100]), np.float32([100, 95]), np.float32([1.05, 0.52, 0.47])
    out = launch("binomial_options", "binomial_options", [2], [32], prices, strikes, zeros(2), *factors,
                 constants={"LEAVES": 32})[2]  # fmt: skip
    assert np.allclose(
        out, [put(*pair, *factors.astype(float)) for pair in zip(prices, strikes, strict=True)], rtol=1e-4
    )


def put(price, strike, up, rise, fall):
    """Price of an American put by a tree of 31 steps."""
    values = np.maximum(strike - price * up ** np.arange(-31.0, 32, 2), 0)
    for step in range(30, -1, -1):
        now = strike - price * up ** np.arange(-step, step + 1.0, 2)
        values = np.maximum(now, fall * values[:-1] + rise * values[1:])
    return values[0]


def test_box_filter():
    from scipy.ndimage import uniform_filter1d

    image = random(20, 40)
    out = launch("box_filter", "box_filter", [2, 3], [32], image, zeros(20, 40), 40, 20, 2, 8)[1]
    assert np.allclose(out, uniform_filter1d(image, 5, axis=0, mode="nearest"), atol=1e-5)


ACROSS, DOWN = np.int32([[0, 1, 0, -1, 0, 1, -1, -1, 1], [0, 0, 1, 0, -1, 1, 1, -1, -1]])
WEIGHTS = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)


def test_lattice_boltzmann():
    f = random(9, 6, 10, low=0.9, high=1.1)
    arrays = {"across": ACROSS.tobytes(), "down": DOWN.tobytes()}
    arguments = f, zeros(9, 6, 10), 10, 6, np.float32(1.2)
    out = launch("lattice_boltzmann", "lattice_boltzmann", [2], [32], *arguments, arrays=arrays)[1]
    pulled = np.stack([np.roll(f[k], (DOWN[k], ACROSS[k]), (0, 1)) for k in range(9)])
    density = pulled.sum(0)
    u, v = (np.tensordot(directions, pulled, 1) / density for directions in (ACROSS, DOWN))
    along = 3 * (ACROSS[:, None, None] * u + DOWN[:, None, None] * v)
    equilibrium = WEIGHTS[:, None, None] * density * (1 + along + along**2 / 2 - 1.5 * (u * u + v * v))
    assert np.allclose(out, pulled + 1.2 * (equilibrium - pulled), atol=1e-5)


def test_charge_deposit():
    x, y, charges = random(70, high=8), random(70, 1, high=4)[:, 0], random(70, 1, 1).ravel()
    out = launch("charge_deposit", "charge_deposit", [2], [64], x, y, charges, zeros(4, 8), 70, 8, 4)[3]
    expected = np.zeros((4, 8))
    left, top = x.astype(int), y.astype(int)
    for right, below in ((0, 0), (0, 1), (1, 0), (1, 1)):
        shares = np.where(right, x - left, 1 - (x - left)) * np.where(below, y - top, 1 - (y - top))
        np.add.at(expected, ((top + below) % 4, (left + right) % 8), charges * shares)
    assert np.allclose(out, expected, atol=1e-5)


def test_small_inverse():
    matrices = random(40, 8, 8, dtype=np.float64) + 4 * np.eye(8)
    out = launch("small_inverse", "small_inverse", [1], [64], matrices, 0 * matrices, 40)[1]
    assert np.allclose(out, np.linalg.inv(matrices))


def test_wave_equation():
    shape, weights = (10, 24, 40), random(5, low=-1)
    now, last = random(*shape), random(*shape, high=2)
    sizes = 40, 24, 10, np.float32(0.1)
    out = launch("wave_equation", "wave_equation", [1, 1], [32, 16], now, last, weights, *sizes)[1]
    rolled = [np.roll(now, shift, axis) * weights[abs(shift)] for axis in range(3) for shift in range(-4, 5) if shift]
    next_values = 2 * now - last + 0.1 * (sum(rolled) + weights[0] * now)
    expected, inner = last.copy(), (slice(4, -4),) * 3
    expected[inner] = next_values[inner]
    assert np.allclose(out, expected, atol=1e-5)


def test_lennard_jones():
    positions, neighbours = random(40, 4, high=4), (words(6, 40) % np.uint32(40)).astype(np.int32)
    arguments = positions, neighbours, zeros(40, 4), 40, 6, np.float32(4), np.float32(1.5)
    out = launch("lennard_jones", "lennard_jones", [2], [32], *arguments)[2]
    apart = positions[:, :3].astype(float) - positions[neighbours, :3]
    apart -= 4 * np.rint(apart / 4)
    square = (apart**2).sum(2)
    near = (square < 1.5**2) & (square > 0)
    inverse = np.where(near, 1 / np.where(near, square, 1), 0)
    forces = (24 * (2 * inverse**7 - inverse**4)[..., None] * apart).sum(0)
    assert np.allclose(out[:, :3], forces, rtol=2e-3, atol=1e-2)
    assert np.allclose(out[:, 3], (4 * (inverse**6 - inverse**3)).sum(0), rtol=2e-3, atol=1e-2)


def test_softmax():
    from scipy.special import softmax

    x = random(3, 150, low=-4, high=4)
    out = launch("softmax", "softmax", [3], [64], x, zeros(3, 150), 150)[1]
    assert np.allclose(out, softmax(x.astype(float), axis=1), rtol=1e-4)


def test_half_gemv():
    matrix, x = random(5, 512, dtype=np.float16), random(512, dtype=np.float16)
    out = launch("half_gemv", "half_gemv", [2], [96], matrix, x, zeros(5), 5, 512)[2]
    assert np.allclose(out, matrix.astype(float) @ x.astype(float), rtol=1e-3)


@pytest.mark.parametrize("depth", [1, 4])
def test_random_forest(depth):
    inner, leaves = (1 << depth) - 1, random(3, 1 << depth)
    features, thresholds = (words(3, inner) % np.uint32(6)).astype(np.int32), random(3, inner)
    samples = random(40, 6, high=0.9)
    arguments = features, thresholds, leaves, samples, zeros(40), 40, 6, 3, depth
    out = launch("random_forest", "random_forest", [2], [32], *arguments)[4]
    assert np.allclose(out, [np.mean([decide(s, *tree) for tree in zip(features, thresholds, leaves, strict=True)])
                             for s in samples])  # fmt: skip


def decide(sample, features, thresholds, leaves):
    node = 0
    while node < len(features):
        node = 2 * node + (2 if sample[features[node]] > thresholds[node] else 1)
    return leaves[node - len(features)]
