# Run by r_user.py from the project's folder.
source("tests/strangers/r_user/start.R")

prompts <- c(paste("Count", 1:4), paste("Long story number", 1:100))
n <- c(rep(1, 4), rep(400, 100))
cat("round\n")
results <- tryCatch(
  generate_parallel(context, prompts, max_tokens = n, ignore_eos = TRUE),
  warning = \(cnd) NULL,
  interrupt = \(cnd) cnd$results
)
table <- as.data.frame(results)
begun <- table$finish_reason == "cancelled" & table$n_generated_tokens > 0
tell(
  16,
  "a script that catches the interrupt gets the results and unfinished texts",
  c(
    length(results) == 104,
    "cancelled" %in% table$finish_reason,
    identical(!is.na(table$partial), begun),
    identical(last_results(), results)
  ),
  sprintf("%d answered, %d begun", sum(!is.na(results)), sum(begun))
)
