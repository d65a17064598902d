"""Example kernels that were added later compute what they should on a few blocks, as in `test_kernel_values`."""

import hashlib
import re

import numpy as np

from tests.gallery.test_kernel_values import launch, random, source_of, words, zeros


def test_sgemm():
    a, b = random(128, 16), random(16, 128)
    out = launch("sgemm", "sgemm", [1, 1], [256], a, b, zeros(128, 128), 128, 128, 16)[2]
    assert np.allclose(out, a @ b)


def test_n_body():
    bodies, points = random(64, 4), random(20, 4, low=2, high=3)
    arguments = bodies, points, zeros(20, 4), 20, 64, np.float32(0.5)
    out = launch("n_body", "n_body", [1], [32], *arguments, constants={"THREADS": 32})[2]
    between = bodies[:, :3] - points[:, None, :3]
    strength = bodies[:, 3] * ((between**2).sum(2) + 0.5) ** -1.5
    assert np.allclose(out[:, :3], (strength[..., None] * between).sum(1), rtol=1e-4)


def test_bfs_visits_the_neighbours_of_the_frontier():
    starts, degrees = np.arange(100, dtype=np.int32) * 4, (words(100) % np.uint32(5)).astype(np.int32)
    neighbours = (words(100, 4) % np.uint32(100)).astype(np.int32)
    levels = (words(100)[::-1] % np.uint32(6)).astype(np.int32) - 2
    visited = [(levels[row[:degree]] == 3).any() for row, degree in zip(neighbours, degrees, strict=True)]
    out = launch("bfs", "bfs_bottom_up", [2], [64], starts, degrees, neighbours, levels, 0 * levels, 100, 3)[4]
    assert np.array_equal(out, np.where((levels < 0) & visited, 4, levels))


def test_sha256():
    messages = [bytes(range(n, n + 55)) for n in range(40)]
    padded = np.frombuffer(b"".join(m + b"\x80" + (440).to_bytes(8, "big") for m in messages), np.uint32)
    constants = np.uint32([int(text, 16) for text in re.findall(r"0x(\w{8})", source_of("sha256"))[:64]])
    arguments, arrays = (padded, zeros(40, 8, dtype=np.uint32), 40), {"ROUND_CONSTANTS": constants.tobytes()}
    out = launch("sha256", "sha256", [2], [32], *arguments, arrays=arrays)[1]
    assert [row.tobytes() for row in out] == [hashlib.sha256(m).digest() for m in messages]


def test_fft():
    x = random(1024, 2, low=-1)
    out = launch("fft", "fft", [1], [256], x, zeros(1024, 2))[1]
    assert np.allclose(out @ [1, 1j], np.fft.fft(x @ [1, 1j]), atol=1e-4)


def test_splat_keeps_the_nearest_point_of_a_pixel():
    x, y, z = random(100, low=-1), random(100, 1, low=-1)[:, 0], random(100, 1, 1, low=1, high=3).ravel()
    sizes = 100, 16, 8, np.float32(8)
    pixels = launch("splat", "splat", [2], [64], x, y, z, zeros(8, 16, dtype=np.uint64), *sizes)[3]
    columns, rows = (np.floor(np.float32(8) * a * (1 / z)).astype(int) for a in (x, y))
    nearest = {}
    for i in np.argsort(-z):
        if -4 <= rows[i] < 4:
            nearest[rows[i] + 4, columns[i] + 8] = i
    found = {(int(row), int(column)): pixels[row, column] & 0xFFFFFFFF for row, column in np.argwhere(pixels)}
    assert found == nearest


def test_levenshtein():
    a, b = (words(2, 64) % np.uint32(4)).astype(np.uint8), np.zeros((2, 64), np.uint8)
    b[0, 3:], b[1] = a[0, :-3], a[1]
    b[1, ::16] += 1
    distances = zeros(2, dtype=np.int32)
    out = launch("levenshtein", "levenshtein", [2], [64], a, b, distances, constants={"LENGTH": 64})[2]
    assert out[1] == 4 and out[0] == levenshtein(a[0], b[0])


def levenshtein(a, b):
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + int(letter != other))
    return row[-1]


def test_embedding():
    table, indices = random(50, 128), (words(5, 7) % np.uint32(50)).astype(np.int32)
    out = launch("embedding", "embedding", [2], [96], table, indices, zeros(5, 128), 5, 7)[2]
    assert np.allclose(out, table[indices].mean(1))


def test_monte_carlo():
    place = np.float32([100, 100, 0.001, 0.02])
    out = launch("monte_carlo", "monte_carlo", [2], [128], zeros(200), 200, 2, 7, *place)[0]
    expected = [asian_payoff(i, 7, *place) for i in range(200)]
    assert np.allclose(out, expected, atol=1e-5) and 60 < np.count_nonzero(out) < 140


def asian_payoff(i, seed, price, strike, drift, deviation):
    """Payoff of a path of two steps."""
    state, numbers = (i * 2654435761 & 0xFFFFFFFF ^ seed) | 1, []
    for _ in range(2):
        state ^= state << 13 & 0xFFFFFFFF
        state ^= state >> 17
        state ^= state << 5 & 0xFFFFFFFF
        numbers.append(state)
    radius, angle = np.sqrt(-2 * np.log((numbers[0] + 1) / 2**32)), 2 * np.pi * numbers[1] / 2**32
    first = price * np.exp(drift + deviation * radius * np.cos(angle))
    second = first * np.exp(drift + deviation * radius * np.sin(angle))
    return max((first + second) / 2 - strike, 0) / price


def test_hamming():
    queries, descriptors = words(20, 8), words(64, 8)[::-1].copy()
    arguments = queries, descriptors, zeros(20, 2, dtype=np.uint32), 20, 64
    out = launch("hamming", "hamming", [1], [32], *arguments, constants={"THREADS": 32})[2]
    distances = np.bitwise_count(queries[:, None] ^ descriptors).sum(2, dtype=np.uint32)
    assert np.array_equal(out, np.sort(distances << 20 | np.arange(64, dtype=np.uint32))[:, :2])


def test_binary_search():
    keys, queries = np.sort(words(100)), words(300)[200:]
    queries[:3] = 0, 0xFFFFFFFF, keys[50]
    out = launch("binary_search", "binary_search", [2], [64], keys, queries, zeros(100, dtype=np.uint32), 100, 100)[2]
    assert np.array_equal(out, np.searchsorted(keys, queries))


def test_median_filter():
    from scipy.ndimage import median_filter

    image = random(10, 40)
    out = launch("median_filter", "median_filter", [2, 2], [32, 8], image, zeros(10, 40), 40, 10)[1]
    assert np.array_equal(out, median_filter(image, 3, mode="nearest"))


def test_int8_multiply():
    a, b = words(64, 32).view(np.int8), words(64, 32)[::-1].copy().view(np.int8)
    out = launch("int8_multiply", "int8_multiply", [1, 1], [16, 16], a, b, zeros(64, 64, dtype=np.int32), 64, 32)[2]
    assert np.array_equal(out, a.astype(int) @ b.T.astype(int))


def test_tridiagonal():
    lower, upper, right = (random(6, 40, high=h, dtype=np.float64) for h in (0.5, 1, 2))
    diagonal, zero = 3 + random(6, 40, dtype=np.float64), np.zeros((6, 40))
    x = launch("tridiagonal", "tridiagonal", [2], [32], lower, diagonal, upper, right, zero, zero, 40, 6)[5]
    product = diagonal * x
    product[1:] += lower[1:] * x[:-1]
    product[:-1] += upper[:-1] * x[1:]
    assert np.allclose(product, right)


def test_image_rotation():
    from scipy.ndimage import map_coordinates

    image, (c, s) = random(16, 40), np.float32([0.8, 0.6])
    out = launch("image_rotation", "image_rotation", [2, 2], [32, 8], image, zeros(16, 40), 40, 16, c, s)[1]
    y, x = np.mgrid[:16, :40] - np.array([7.5, 19.5])[:, None, None]
    y, x = 7.5 - 0.6 * x + 0.8 * y, 19.5 + 0.8 * x + 0.6 * y
    inside = (x >= 0.01) & (y >= 0.01) & (x < 38.99) & (y < 14.99)
    assert np.allclose(out[inside], map_coordinates(image, [y, x], order=1)[inside], atol=1e-4)
    assert not out[(x < -0.01) | (y < -0.01) | (x > 39.01) | (y > 15.01)].any()


def test_varint_decode():
    chunks = words(40, 16).view(np.uint8)
    sums, counts = np.zeros(40, np.uint64), zeros(40, dtype=np.int32)
    out = launch("varint_decode", "varint_decode", [2], [32], chunks, sums, counts, 40)
    assert out[2].tolist() == [sum(b < 128 for b in row) + int(row[-1] >= 128) for row in chunks]
    assert out[1].tolist() == [sum(varints(row.tolist())) for row in chunks]


def varints(row):
    """Numbers of a chunk; bytes after the fourth of a number are shifted by 28 bits."""
    value = shift = 0
    for position, byte in enumerate(row):
        value |= (byte & 127) << min(shift, 28) & 0xFFFFFFFF
        shift += 7
        if byte < 128 or position == len(row) - 1:
            yield value
            value = shift = 0
