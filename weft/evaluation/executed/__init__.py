"""Runs that were carried out: what was planned, what happened, and why they differ."""

from weft.evaluation.executed.executed import Executed as Executed
from weft.evaluation.executed.executed import executed_of as executed_of
from weft.evaluation.executed.executed import read_executed as read_executed
from weft.evaluation.executed.executed import schedule_of as schedule_of
from weft.evaluation.executed.summary import summary as summary
