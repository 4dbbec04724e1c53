"""Named, seeded distributions of problems, with settings that can be swept; recipes are TOML."""

from weft.model.stream import StreamProblem as StreamProblem
from weft.scenarios.recipes import Recipe as Recipe
from weft.scenarios.recipes import offered_recipes as offered_recipes
from weft.scenarios.recipes import read_recipe as read_recipe
from weft.scenarios.recipes import recipe_names as recipe_names
from weft.scenarios.recipes import recipe_text as recipe_text
from weft.scenarios.scenario import Scenario as Scenario
from weft.scenarios.scenario import file_scenarios as file_scenarios
from weft.scenarios.scenario import scenario as scenario
from weft.scenarios.scenario import sweep as sweep
from weft.scenarios.settings import Setting as Setting
from weft.scenarios.settings import parse_assignments as parse_assignments
from weft.scenarios.splits import SPLITS as SPLITS
from weft.scenarios.splits import seed_of as seed_of
from weft.scenarios.splits import split_of as split_of
