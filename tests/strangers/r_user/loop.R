# Run by r_user.py from the project's folder.
source("tests/strangers/r_user/start.R")

prompts <- c(paste("Count", 1:4), paste("Long story number", 1:100))
n <- c(rep(1, 4), rep(400, 100))
for (round in 1:3) {
  cat("round", round, "\n")
  answers <- generate_parallel(
    context,
    prompts,
    max_tokens = n,
    ignore_eos = TRUE
  )
}
cat("went on\n")
