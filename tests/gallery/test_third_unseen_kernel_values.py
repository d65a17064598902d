"""Example kernels of the third unseen group compute what they should on a few blocks, as in `test_kernel_values`."""

import numpy as np
import pytest

from tests.gallery.test_kernel_values import launch, random, words, zeros

THREADS_64 = {"THREADS": 64}


def test_layer_norm():
    x, scale, shift = random(3, 256, low=-1), random(256, high=2), random(256, low=-1)
    arguments = x, scale, shift, zeros(3, 256), 3, np.float32(0.01)
    out = launch("layer_norm", "layer_norm", [2], [64], *arguments, constants={"COLUMNS": 256})[3]
    deviations = np.sqrt(x.var(1, keepdims=True, dtype=float) + 0.01)
    assert np.allclose(out, (x - x.mean(1, keepdims=True)) / deviations * scale + shift, atol=1e-4)


def test_radix_sort():
    keys = words(2, 256)
    arguments = keys, zeros(2, 256, dtype=np.uint32), zeros(16, 2, dtype=np.int32), 5
    _, out, counts = launch("radix_sort", "radix_sort", [2], [64], *arguments, constants=THREADS_64)
    digits = keys >> 5 & 15
    assert np.array_equal(out, np.take_along_axis(keys, np.argsort(digits, axis=1, kind="stable"), 1))
    assert np.array_equal(counts.T, [np.bincount(row, minlength=16) for row in digits])


def test_heat_equation():
    heat, sources = random(20, 30, high=9), random(20, 30)
    sizes = 30, 20, np.float32(0.2), np.float32(4)
    out = launch("heat_equation", "heat_equation", [2, 1], [32, 32], heat, sources, zeros(20, 30), *sizes)[2]
    expected = heat.astype(float)
    for _ in range(4):
        padded = np.pad(expected, 1, constant_values=4)
        sides = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
        expected = expected + sources + 0.2 * (sides - 4 * expected)
    assert np.allclose(out, expected, atol=1e-4)


def times_two(x):
    """Product with x in the field of AES."""
    return x << 1 ^ (x >> 7) * 0x11B


def aes_table_and_keys(key):
    """The table of the kernel and the round keys as words."""
    powers = [1]
    while len(powers) < 255:
        powers.append(powers[-1] ^ times_two(powers[-1]))  # of 3, which generates the field
    inverses = [0, *(powers[-powers.index(x) % 255] for x in range(1, 256))]
    doubled = [x * 0x101 for x in inverses]
    box = [(x ^ d >> 4 ^ d >> 5 ^ d >> 6 ^ d >> 7) & 255 ^ 0x63 for x, d in zip(inverses, doubled, strict=True)]
    expanded, constant = [list(key[4 * k : 4 * k + 4]) for k in range(4)], 1
    while len(expanded) < 44:
        word = expanded[-1]
        if len(expanded) % 4 == 0:
            word = [box[x] for x in word[1:] + word[:1]]
            word[0], constant = word[0] ^ constant, times_two(constant)
        expanded.append([a ^ b for a, b in zip(word, expanded[-4], strict=True)])
    table = [times_two(s) | s << 8 | s << 16 | (times_two(s) ^ s) << 24 for s in box]
    return np.array(table, np.uint32), np.array(expanded, np.uint8).view(np.uint32)


def test_aes():
    """The example of FIPS 197, appendix C.1, is the first counter."""
    table, keys = aes_table_and_keys(bytes(range(16)))
    *nonce, _ = np.frombuffer(bytes.fromhex("00112233445566778899aabbccddeeff"), np.uint32)
    texts = np.concatenate([zeros(1, 4, dtype=np.uint32), words(257, 4)])
    arguments = table, keys, texts, 0 * texts, *nonce, np.uint32(0xCCDDEEFF), 258
    out = launch("aes", "aes", [2], [256], *arguments)[3]
    assert out[0].tobytes().hex() == "69c4e0d86a7b0430d8cdb78070b4c55a"
    assert len(np.unique(out ^ texts, axis=0)) == 258


def test_bellman_ford():
    start, end = words(2, 100) % np.uint32(30)
    weights, distances = words(100) % np.uint32(50), np.arange(30, dtype=np.uint32) * np.uint32(7)
    distances[::3], following = 1 << 30, np.full(30, 1 << 30, np.uint32)
    out = launch("bellman_ford", "bellman_ford", [2], [64], start, end, weights, distances, following, 100)[4]
    expected, is_reached = following.copy(), distances[start] < 1 << 30
    np.minimum.at(expected, end[is_reached], (distances[start] + weights)[is_reached])
    assert np.array_equal(out, expected)


def test_bilateral_filter():
    image = random(10, 20)
    factors = np.float32(-0.1), np.float32(-3)
    arguments = image, zeros(10, 20), 20, 10, 2, *factors
    out = launch("bilateral_filter", "bilateral_filter", [2, 1], [16, 16], *arguments)[1]
    padded, total, weights = np.pad(image.astype(float), 2, mode="edge"), 0.0, 0.0
    for y, x in np.ndindex(5, 5):
        pixels = padded[y : y + 10, x : x + 20]
        weight = np.exp(-0.1 * ((y - 2) ** 2 + (x - 2) ** 2) - 3 * (pixels - image) ** 2)
        total, weights = total + weight * pixels, weights + weight
    assert np.allclose(out, total / weights, atol=1e-5)


def test_dct():
    from scipy.fft import dct, dctn

    image, cosines = random(16, 64, low=-1), dct(np.eye(8), axis=0, norm="ortho").astype(np.float32)
    out = launch("dct", "dct", [1, 2], [64, 8], image, cosines, zeros(16, 64), 64)[2]
    blocks = image.reshape(2, 8, 8, 8)
    assert np.allclose(out.reshape(blocks.shape), dctn(blocks, axes=(1, 3), norm="ortho"), atol=1e-5)


@pytest.mark.parametrize("threads", [32, 128])
def test_cholesky(threads):
    matrices = random(2, 32, 32, dtype=np.float64)
    matrices = np.tril(matrices) + np.tril(matrices, -1).transpose(0, 2, 1)
    out = launch("cholesky", "cholesky", [2], [threads], matrices, 0 * matrices, np.float64(32))[1]
    assert np.allclose(out, np.linalg.cholesky(matrices + 32 * np.eye(32)))


def test_top_k():
    matrix = random(3, 300)
    matrix[2] = np.sort(matrix[2])
    arguments = matrix, zeros(3, 8), zeros(3, 8, dtype=np.int32), 3, 300
    _, values, indices = launch("top_k", "top_k", [2], [64], *arguments)
    assert np.array_equal(indices, np.argsort(-matrix, axis=1)[:, :8])
    assert np.array_equal(values, np.take_along_axis(matrix, indices, 1))


def test_modular_power():
    modulus, one = 2**256 - 2**32 - 977, 1 << 256
    limbs = tuple(modulus >> 32 * k & 0xFFFFFFFF for k in range(8))
    numbers = words(6, 8)
    arguments = numbers, 0 * numbers, limbs, np.uint32(-pow(modulus, -1, 1 << 32) % (1 << 32)), 3, 6
    out = launch("modular_power", "modular_power", [1], [32], *arguments)[1]
    for number, power in zip(numbers, out, strict=True):
        base = int.from_bytes(number.tobytes(), "little") * pow(one, -1, modulus)
        assert int.from_bytes(power.tobytes(), "little") == pow(base, 9, modulus) * one % modulus


def test_skinning():
    bones, positions, normals = random(20, 3, 4, low=-1), random(50, 4), random(50, 4, low=-1)
    indices, weights = (words(50, 4) % np.uint32(20)).astype(np.uint8), random(50, 4)
    arguments = bones, positions, normals, indices, weights, zeros(50, 4), zeros(50, 4), 50
    *_, out_positions, out_normals = launch("skinning", "skinning", [2], [32], *arguments)
    matrices = (weights[..., None, None] * bones[indices]).sum(1)
    rotated = np.einsum("nij,nj->ni", matrices[..., :3], normals[:, :3])
    moved = np.einsum("nij,nj->ni", matrices[..., :3], positions[:, :3]) + matrices[..., 3]
    assert np.allclose(out_positions, np.c_[moved, np.ones(50)], atol=1e-5)
    assert np.allclose(out_normals[:, :3], rotated / np.linalg.norm(rotated, axis=1, keepdims=True), atol=1e-4)


def test_attention():
    from scipy.special import softmax

    queries, keys, values = random(2, 64, low=-1), random(2, 96, 64, low=-1), random(2, 96, 64)
    arguments = queries, keys, values, zeros(2, 64), np.float32(0.125)
    out = launch("attention", "attention", [2], [256], *arguments, constants={"KEYS": 96})[3]
    shares = softmax(0.125 * np.einsum("hd,hkd->hk", queries, keys), axis=1)
    assert np.allclose(out, np.einsum("hk,hkd->hd", shares, values), atol=1e-5)


def test_volume_rendering():
    from scipy.ndimage import map_coordinates

    volume, step = random(10, 10, 10), np.array([0.5, -0.05, 0.1])
    numbers = *np.float32(step[::-1]), np.float32(0.4), np.float32(1.5)
    out = launch("volume_rendering", "volume_rendering", [2, 1], [8, 8], volume, zeros(8, 12), 12, 8, 10, *numbers)[1]
    rows, columns = np.mgrid[:8, :12] + 0.5
    points = np.stack([0 * rows, rows / 8 * 9, columns / 12 * 9])
    light, expected = np.ones((8, 12)), np.zeros((8, 12))
    while (is_lit := (light > 0.01) & (points >= 0).all(0) & (points < 9).all(0)).any():
        samples = map_coordinates(volume.astype(float), points, order=1, mode="nearest")
        alpha = np.where(is_lit, 1.5 * np.maximum(samples - 0.4, 0), 0)
        expected, light = expected + light * alpha * samples, light * (1 - alpha)
        points = points + np.where(is_lit, step[:, None, None], 0)
        points = np.where(is_lit, points, -1)
    assert np.allclose(out, expected, atol=1e-3)


def test_string_search():
    text = (97 + words(2 * 256 + 2) % np.uint32(2)).astype(np.uint8)
    pattern = np.frombuffer(b"aba", np.uint8)
    arguments = text, pattern, zeros(2, dtype=np.int32), 3
    constants = {"THREADS": 64, "TILE": 256}
    out = launch("string_search", "string_search", [2], [64], *arguments, constants=constants)[2]
    is_found = (np.lib.stride_tricks.sliding_window_view(text, 3) == pattern).all(1)
    assert out.tolist() == is_found.reshape(2, 256).sum(1).tolist()
