# Run by r_user.py from the project's folder.
library(llamaherd)
model <- model_load(Sys.getenv("LLAMAHERD_TEST_SMOLLM2"))
context <- context_create(model)
texts <- read.csv("examples/data/headlines.csv")
tell <- function(item, what, held, note = "") {
  cat(
    "ROW",
    jsonlite::toJSON(
      list(
        item = item,
        what = what,
        tries = length(held),
        held = sum(held),
        note = paste(note, collapse = " ")
      ),
      auto_unbox = TRUE
    ),
    "\n"
  )
}
