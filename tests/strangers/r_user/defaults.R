# Run by r_user.py from the project's folder.
source("tests/strangers/r_user/start.R")

prompts <- paste(
  "Write about",
  c("cats", "trains", "bread", "rain", "tea", "Rome", "ice", "sand")
)
seconds <- function(context) {
  generate_parallel(context, "Hello", max_tokens = 1)
  took <- system.time(
    answers <- generate_parallel(
      context,
      prompts,
      max_tokens = 32,
      ignore_eos = TRUE,
      verbosity = -1
    )
  )[["elapsed"]]
  c(took, attr(answers, "stats")$n_slots)
}
new <- seconds(context)
old <- seconds(context_create(
  model,
  n_ctx = 2048,
  n_threads = 4,
  n_seq_max = 1
))
tell(
  12,
  "context_create(model) runs many prompts at once; given sizes are used",
  c(new[2] == 8, old[2] == 1),
  sprintf("8 prompts: %.1f s, one at a time %.1f s", new[1], old[1])
)
