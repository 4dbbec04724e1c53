"""The contracts of planners, dispatchers, sessions, environments, policies and file formats, for whoever writes one.

Each raises AssertionError. weft's own tests run the same functions. No test framework is needed.
"""

from weft.testing.dispatchers import check_dispatcher as check_dispatcher
from weft.testing.environments import check_environment as check_environment
from weft.testing.formats import check_format as check_format
from weft.testing.planners import check_planner as check_planner
from weft.testing.policies import check_policy as check_policy
from weft.testing.sessions import check_session as check_session
