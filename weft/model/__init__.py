"""The nouns: graphs, clusters, problems, schedules. No numba, no torch."""

from weft.model.bookings import Booking as Booking
from weft.model.bounds import Bound as Bound
from weft.model.bounds import lower_bound as lower_bound
from weft.model.cluster import Cluster as Cluster
from weft.model.cluster import DeviceClass as DeviceClass
from weft.model.graph import GraphBuilder as GraphBuilder
from weft.model.graph import TaskGraph as TaskGraph
from weft.model.problem import Job as Job
from weft.model.problem import Objective as Objective
from weft.model.problem import Problem as Problem
from weft.model.problem import Realisation as Realisation
from weft.model.problem import realise as realise
from weft.model.schedule import Placement as Placement
from weft.model.schedule import Schedule as Schedule
