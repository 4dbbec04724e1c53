"""Statistics of scheduler comparisons, in NumPy alone: tests, intervals, profiles, verdicts.

Costs are lower-is-better, scores higher-is-better; parameters are named after what they take.
"""

from weft.evaluation.statistics.aggregates import PairedAggregates as PairedAggregates
from weft.evaluation.statistics.aggregates import PairedDifferences as PairedDifferences
from weft.evaluation.statistics.aggregates import paired_aggregates as paired_aggregates
from weft.evaluation.statistics.aggregates import paired_differences as paired_differences
from weft.evaluation.statistics.bootstrap import Interval as Interval
from weft.evaluation.statistics.bootstrap import bca_interval as bca_interval
from weft.evaluation.statistics.comparison import Comparison as Comparison
from weft.evaluation.statistics.comparison import Difference as Difference
from weft.evaluation.statistics.comparison import compare_crossed as compare_crossed
from weft.evaluation.statistics.comparison import compare_differences as compare_differences
from weft.evaluation.statistics.comparison import compare_paired as compare_paired
from weft.evaluation.statistics.comparison import holm_family as holm_family
from weft.evaluation.statistics.intervals import crossed_interval as crossed_interval
from weft.evaluation.statistics.intervals import difference_interval as difference_interval
from weft.evaluation.statistics.intervals import mean_interval as mean_interval
from weft.evaluation.statistics.paired import PairedT as PairedT
from weft.evaluation.statistics.paired import Wilcoxon as Wilcoxon
from weft.evaluation.statistics.paired import WinTieLoss as WinTieLoss
from weft.evaluation.statistics.paired import cohens_d_z as cohens_d_z
from weft.evaluation.statistics.paired import holm as holm
from weft.evaluation.statistics.paired import paired_t as paired_t
from weft.evaluation.statistics.paired import wilcoxon as wilcoxon
from weft.evaluation.statistics.paired import win_tie_loss as win_tie_loss
from weft.evaluation.statistics.profiles import PerformanceProfile as PerformanceProfile
from weft.evaluation.statistics.profiles import performance_profile as performance_profile
