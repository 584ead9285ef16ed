"""Each field of each loss's record against the loss's value; a record that is incomplete or wrong does not pass."""

from dataclasses import MISSING, fields, replace
from inspect import cleandoc

import loss_checks as checks
import pytest

from visionnmf import NMF
from visionnmf.engine.losses import LOSSES, LossRecord, named_losses


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("check", checks.CHECKS)
def test_record(check, name):
    assert LOSSES[name].name == name
    check(LOSSES[name])


@pytest.mark.parametrize("field", [field.name for field in fields(LossRecord) if field.default is MISSING])
def test_a_record_without_a_field_is_refused(field):
    complete = {entry.name: getattr(LOSSES["huber"], entry.name) for entry in fields(LossRecord)}
    del complete[field]
    with pytest.raises(TypeError, match=field):
        LossRecord(**complete)


HUBER, L21, MANHATTAN, FROBENIUS = (LOSSES[name] for name in ("huber", "l21", "manhattan", "frobenius"))
WRONG = {
    "value": (checks.check_value, replace(HUBER, values=FROBENIUS.values)),
    "derivative": (checks.check_derivative, replace(HUBER, derivative=FROBENIUS.derivative)),
    "kink": (checks.check_kink, replace(HUBER, kink=1.0)),
    "no kink": (checks.check_kink, replace(MANHATTAN, kink=0.0)),
    "degree": (checks.check_degrees, replace(MANHATTAN, degree=2)),
    "no degree": (checks.check_degrees, replace(MANHATTAN, degree=None)),
    "weight degree": (checks.check_degrees, replace(L21, weight_degree=1.0)),
    "beta": (checks.check_beta, replace(MANHATTAN, beta=2.0)),
    "prox": (checks.check_proximal, replace(HUBER, proximal=MANHATTAN.proximal)),
    "slope": (checks.check_proximal, replace(HUBER, proximal=HUBER.proximal._replace(slope=MANHATTAN.proximal.slope))),
    "sparse": (checks.check_sparse, replace(MANHATTAN, sparse=FROBENIUS.sparse)),
    "deviation": (
        checks.check_sparse,
        replace(MANHATTAN, sparse=MANHATTAN.sparse._replace(deviation=FROBENIUS.sparse.deviation)),
    ),
    "parameter": (checks.check_parameter, replace(HUBER, parameter=HUBER.parameter._replace(default=lambda mean: 0.1))),
}


@pytest.mark.parametrize("field", WRONG)
def test_a_wrong_record_is_found_out(field):
    check, record = WRONG[field]
    with pytest.raises(AssertionError):
        check(record)


def test_the_guide_of_nmf_has_a_line_for_each_loss():
    for name in named_losses():
        assert f"\n{name:<16}  {LOSSES[name].noise}\n" in cleandoc(NMF.__doc__)
    with_parameter = {name: record.parameter.symbol for name, record in LOSSES.items() if record.parameter}
    assert all(f'``{symbol}`` of "{name}"' in NMF.__doc__ for name, symbol in with_parameter.items())
    assert all(f'"{name}"' in NMF.fit.__doc__ for name, record in LOSSES.items() if record.sparse and record.is_named)
