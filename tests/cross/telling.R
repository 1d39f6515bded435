# Codes the texts of a job and writes a report; then runs Python's report again.
# Rscript telling.R JOB.json FOUND.json
files <- commandArgs(TRUE)
library(llamaherd)

job <- jsonlite::read_json(files[[1]], simplifyVector = TRUE)
model <- model_load(job$model)
context <- context_create(model, n_threads = 2L, n_seq_max = 4L, deterministic = TRUE)
codebook <- read_codebook(job$codebook)
coded <- annotate_texts(data.frame(text = job$texts), text, codebook, context)
people <- c("Sports", "no", "no", NA, "Sports", "no")
several <- robustness(coded["text"], text, codebook, context, orders = 1)
sample <- estimate(cbind(coded, code = people), "code", prob = "simple")
report(coded, job$page, validate(coded, people), sample, several)
# Rows in another order are still the texts that were coded.
report(coded[c(4, 1, 5), ], job$part, texts = FALSE)
again <- reproduce(job$of_python, model, n_seq_max = 2)
results <- list(same = again$same, n = again$n, page = format(again))
writeLines(jsonlite::toJSON(results, auto_unbox = TRUE), files[[2]])
