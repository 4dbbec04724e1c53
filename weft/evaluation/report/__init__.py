"""Reports: sweeps, training runs and comparisons as one HTML file and a Markdown twin."""

from weft.evaluation.report.build import Options as Options
from weft.evaluation.report.build import Sources as Sources
from weft.evaluation.report.build import build as build
from weft.evaluation.report.build import gather as gather
from weft.evaluation.report.build import write as write
