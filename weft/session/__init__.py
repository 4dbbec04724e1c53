"""Sessions: events in, decisions out."""

from weft.session.messages import Cancel as Cancel
from weft.session.messages import Decision as Decision
from weft.session.messages import End as End
from weft.session.messages import Reservation as Reservation
from weft.session.messages import Start as Start
from weft.session.session import Session as Session
