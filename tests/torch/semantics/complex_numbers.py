"""Complex numbers: in the middle of a module, as arguments and results, in its parameters, and
written to."""

import torch

from .cases import Cases, floats, whole

CASES = Cases()
of, each = CASES.of, CASES.each


def numbers(*shape, dtype=torch.complex64):
    real = torch.float64 if dtype == torch.complex128 else torch.float32
    return torch.complex(floats(*shape, dtype=real), floats(*shape, 2, dtype=real)[..., 1])


ZEROS = torch.tensor([0, -1, 1, -1j, 1j, -2 + 0j, complex(-2, -0.0), 3 + 4j], dtype=torch.complex64)
WEIGHT = numbers(3, 4, 4, 3)
WINDOW = torch.hann_window(16)

each(
    numbers(3, 4),
    numbers(3, 4),
    tolerance=1e-5,
    sums=lambda a, b: (
        a + b,
        a - b.real,
        b.imag - a,
        2 - a,
        a + (1 - 2j),
        torch.add(a, b, alpha=2),
        torch.sub(a.real, b, alpha=1j),
    ),
    products=lambda a, b: (a * b, a * b.real, 3 * a, a * 2j, 1j * a.imag, a.square(), a**2, a**3),
    quotients=lambda a, b: (
        a / b,
        a / b.real,
        a.real / b,
        1 / a,
        a / 2,
        a / (1 + 1j),
        a.reciprocal(),
    ),
    powers=lambda a, b: (a**0.5, a**1.7, a ** (1 + 2j), a**b, 2**a, a**b.real, a**0),
    functions=lambda a, b: (
        a.exp(),
        a.log(),
        a.sqrt(),
        a.rsqrt(),
        a.sin(),
        a.cos(),
        a.tan(),
        a.sinh(),
        a.cosh(),
        a.tanh(),
        a.sigmoid(),
    ),
    normalised=lambda a, b: (
        torch.nn.functional.normalize(a),
        a / a.abs().amax(),
        a.real.expand_as(b),
        torch.nn.functional.normalize(b, dim=0),
    ),
    sizes=lambda a, b: (
        a.abs(),
        a.angle(),
        a.sgn(),
        torch.linalg.vector_norm(a),
        torch.linalg.vector_norm(b, dim=1, keepdim=True),
    ),
    matrices=lambda a, b: (
        a @ b.T,
        a @ b.mH,
        torch.einsum("ij,kj->ik", a, b),
        torch.outer(a[0], b[0]),
        a @ b[0],
    ),
    dots=lambda a, b: (
        torch.dot(a[0], b[0]),
        torch.vdot(a[0], b[0]),
        (a * b.conj()).sum(),
        a.mean(0),
        a.cumsum(1),
    ),
    added_products=lambda a, b: (
        torch.addmm(a @ a.mH, a, b.T, beta=0.5, alpha=2),
        torch.addcmul(a, a, b),
        torch.addcdiv(a, a, b, value=2),
    ),
    comparisons=lambda a, b: (
        a == b,
        a != b,
        a == a.real,
        a.imag != b,
        torch.isnan(a),
        torch.isfinite(b),
        a == 1j,
    ),
    moved=lambda a, b: (
        torch.cat([a, b]),
        torch.stack([a, b.conj()], -1),
        a.T.reshape(-1),
        a[:, 1:3],
        a[0, 1],
        a.flip(0).roll(1, 1),
        a[[0, 2]],
    ),
    joined_with_real=lambda a, b: (
        torch.cat([a, b.real]),
        torch.where(a.real > 0, a, b.imag),
        a.masked_fill(a.imag > 0, 1j),
        torch.stack([a.real, b]),
    ),
    padded=lambda a, b: (
        torch.nn.functional.pad(a, (1, 2)),
        torch.nn.functional.pad(b, (0, 0, 1, 0), value=2.0),
        a.unfold(1, 2, 1),
    ),
    split=lambda a, b: (
        *a.chunk(2, 1),
        *b.unbind(0),
        a.expand(2, 3, 4),
        a.repeat(2, 1),
        a.diagonal(),
        a.tril(),
    ),
    made=lambda a, b: (
        torch.ones_like(a),
        torch.zeros_like(b),
        torch.full_like(a, 1 + 2j),
        torch.complex(a.real, b.imag),
        torch.eye(3, dtype=a.dtype),
    ),
    converted=lambda a, b: (
        a.to(torch.complex128) * 2,
        a.real.to(torch.complex64),
        (a * a.conj()).real.to(torch.float64),
        b.resolve_conj(),
    ),
    views=lambda a, b: (
        torch.view_as_real(a * b),
        torch.view_as_complex(torch.view_as_real(a).flip(-1)),
        a.conj().imag,
        a.mT.conj()[0],
    ),
    polar_form=lambda a, b: (torch.polar(a.abs(), a.angle()), torch.polar(a.real.abs(), b.imag)),
)
each(
    ZEROS,
    at_zeros_and_axes=lambda z: (z.sqrt(), z**1.5, z**0, z.sgn(), z.abs(), z.angle(), z.exp()),
)
each(
    numbers(2, 5, 6),
    transforms=lambda z: (
        torch.fft.fft(z),
        torch.fft.ifft(z, dim=1),
        torch.fft.fft2(z, norm="ortho"),
        torch.fft.ifftn(z),
        torch.fft.fft(z, n=9),
    ),
    halves=lambda z: (
        torch.fft.irfft(z),
        torch.fft.irfft(z, n=9),
        torch.fft.irfft2(z),
        torch.fft.irfftn(z, norm="ortho"),
        torch.fft.hfft(z, n=7),
    ),
)
each(
    floats(2, 6, 7),
    real_transforms=lambda x: (
        torch.fft.rfft(x),
        torch.fft.rfft2(x),
        torch.fft.rfftn(x, norm="forward"),
        torch.fft.ihfft(x),
        torch.fft.fft2(x).real,
    ),
    back_again=lambda x: (
        torch.fft.irfft(torch.fft.rfft(x), n=7),
        torch.fft.irfft2(torch.fft.rfft2(x), s=(6, 7)),
        torch.fft.fftshift(torch.fft.fft(x)),
    ),
)
each(
    floats(2, 700),
    long_transforms=lambda x: (torch.fft.rfft(x).abs(), torch.fft.irfft(torch.fft.rfft(x) * 2)),
    tolerance=1e-4,
)
each(
    floats(2, 80),
    short_time=lambda x: (
        torch.stft(x, 16, 4, 16, WINDOW, return_complex=True),
        torch.stft(x, 16, 4, 16, WINDOW, return_complex=True).abs() ** 2,
    ),
    short_time_uneven=lambda x: torch.stft(
        x,
        16,
        5,
        12,
        WINDOW[:12],
        center=False,
        normalized=True,
        onesided=False,
        return_complex=True,
    ),
    short_time_back=lambda x: torch.istft(
        torch.stft(x, 16, 4, 16, WINDOW, return_complex=True) * 2, 16, 4, 16, WINDOW
    ),
    short_time_back_uneven=lambda x: torch.istft(
        torch.stft(x, 16, 5, 16, WINDOW, return_complex=True), 16, 5, 16, WINDOW, length=70
    ),
)
each(
    numbers(4, 5, dtype=torch.complex128),
    doubles=lambda z: (z * z, z.abs(), torch.fft.fft(z), (z @ z.T).real),
)
each(
    numbers(2, 3),
    real_results=lambda z: (z.real, z.imag, z.real * z.imag),
    the_argument=lambda z: z,
    a_dictionary=lambda z: {"z": z * 2, "size": z.abs()},
)


@of(floats(2, 5, 4, 16), floats(5, 8))
def rotary_embedding(query, angles):
    turns = torch.polar(torch.ones_like(angles), angles)[None, :, None]
    return torch.view_as_real(torch.view_as_complex(query.reshape(2, 5, 4, 8, 2)) * turns).flatten(
        3
    )


@of(floats(2, 3, 8, 8))
def fourier_neural_operator(x):
    spectrum, kept = torch.fft.rfft2(x), torch.zeros(2, 4, 8, 5, dtype=torch.complex64)
    kept[:, :, :4, :3] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :4, :3], WEIGHT)
    return torch.fft.irfft2(kept, s=(8, 8))


@of(numbers(3, 4), numbers(4))
def written(a, row):
    b = a.clone()
    b[1] = row
    b[:, 0] += 1j
    b[2, 1:3] *= 2
    b[b.real > 0] = 0
    return b


@of(numbers(3, 4))
def written_argument(a):
    a.mul_(2j)
    a[0] = 1
    return a.real.sum()


@of(numbers(3, 4), whole(2, low=0, high=3))
def chosen(a, places):
    return (
        a[places],
        a.index_select(0, places),
        a.gather(1, places[:, None]),
        a.index_add(0, places, a[:2]),
    )


@of(numbers(3, 4), refused="not supported for complex numbers")
def sorted_by_nothing(a):
    return a.prod() if a.shape[0] == 2 else torch.cumprod(a, 0), a.var()


@of(numbers(3, 4), floats(1), refused="complex numbers in branches and loops")
def in_a_branch(a, x):
    return torch.cond(x.sum() > 0, lambda z: z * 2, lambda z: z + 1, (a,))
