# Run by r_user.py from the project's folder.
source("tests/strangers/r_user/start.R")

options(cli.progress_handlers_force = "logger", cli.progress_show_after = 0)
answers <- generate_parallel(
  context,
  texts$text,
  max_tokens = 1,
  progress = TRUE
)
options(cli.progress_handlers_force = "cli", cli.width = 80)
state <- list(
  n_done = 22L,
  n_total = 200L,
  rates = "8.1 prompts/s, tokens/s: 1930 read, 14 written"
)
line <- paste0(
  llamaherd:::draw_bar(state, 80),
  "22/200 | ",
  state$rates,
  " | ETA 12m 30s"
)
tell(
  17,
  "R's progress bar fits into 80 columns",
  nchar(line, "width") <= 80,
  line
)
