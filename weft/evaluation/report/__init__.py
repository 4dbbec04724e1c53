"""Reports: sweeps, training runs and comparisons, one plan, or one run, as one HTML file and a Markdown twin."""

from weft.evaluation.report.build import Options as Options
from weft.evaluation.report.build import Sources as Sources
from weft.evaluation.report.build import build as build
from weft.evaluation.report.build import gather as gather
from weft.evaluation.report.build import write as write
from weft.evaluation.report.live_page import Lived as Lived
from weft.evaluation.report.live_page import live_lines as live_lines
from weft.evaluation.report.live_page import live_report as live_report
from weft.evaluation.report.plan_page import PlanOptions as PlanOptions
from weft.evaluation.report.plan_page import plan_report as plan_report
from weft.evaluation.report.plan_questions import Questions as Questions
from weft.evaluation.report.plan_source import Plan as Plan
from weft.evaluation.report.plan_source import plan_of as plan_of
from weft.evaluation.report.plan_source import read_plan as read_plan
from weft.evaluation.report.run_page import RunOptions as RunOptions
from weft.evaluation.report.run_page import run_report as run_report
