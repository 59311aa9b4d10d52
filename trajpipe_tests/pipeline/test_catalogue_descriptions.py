"""Descriptions in the catalogue's schema: the text below each field; importing the models reads none."""

from __future__ import annotations

from pydantic import BaseModel

from trajpipe.pipeline.catalogue import catalogue_schema
from trajpipe.pipeline.catalogue_conventions import Model
from trajpipe.pipeline.catalogue_descriptions import describe


class Base(BaseModel):
    """Base of this test's models."""


class Wheel(Base):
    """A wheel."""

    radius: float
    """Half of
    the width."""
    spokes: int = 0
    note: str = ""
    1  # noqa: B018 - no text: it describes nothing


class Car(Base):
    """Has wheels."""

    front: Wheel
    """The one that steers."""


class FastCar(Car):
    """A car too."""

    speed: float
    """Metres a second."""


def test_the_text_below_a_field_is_its_description() -> None:
    schema = FastCar.model_json_schema()
    describe(schema, Base)
    assert schema["properties"]["speed"]["description"] == "Metres a second."
    assert schema["properties"]["front"]["description"] == "The one that steers."  # of the class above
    wheel = schema["$defs"]["Wheel"]["properties"]
    assert wheel["radius"]["description"] == "Half of\nthe width."
    assert "description" not in wheel["spokes"]
    assert "description" not in wheel["note"]


def test_the_catalogues_fields_are_described_in_the_schema_alone() -> None:
    entry = catalogue_schema()["$defs"]["QuaternionEntry"]["properties"]["path"]
    assert entry["description"].startswith("Dataset path below the demo")
    models = {model for model in Model.__subclasses__() if model.__module__.startswith("trajpipe.")}
    assert len(models) > 10
    assert {field.description for model in models for field in model.model_fields.values()} == {None}
