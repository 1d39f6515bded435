# Labels the texts of a job and writes a report; then reproduces a report that Python wrote:
#   Rscript telling.R JOB.json FOUND.json
files <- commandArgs(TRUE)
library(llamaherd)

job <- jsonlite::read_json(files[[1]], simplifyVector = TRUE)
model <- model_load(job$model)
context <- context_create(
  model,
  n_threads = 1L,
  n_seq_max = 4L,
  deterministic = TRUE
)
codebook <- read_codebook(job$codebook)
coded <- annotate_texts(data.frame(text = job$texts), text, codebook, context)
people <- c("Sports", "no", "no", NA, "Sports", "no")
several <- robustness(coded, contexts = context, orders = 1)
sample <- estimate(cbind(coded, code = people), "code", prob = "simple")
report(coded, job$page, validate(coded, people), sample, several)
# A report also accepts rows in another order.
report(coded[c(4, 1, 5), ], job$part, texts = FALSE)
# Results that were computed from other labels.
other <- annotate_texts(
  coded["text"],
  text,
  codebook,
  context,
  normalize = "token"
)
other$label[1] <- setdiff(levels(other$label), as.character(coded$label[1]))[1]
kept <- tempfile(fileext = ".rds")
saveRDS(validate(coded, people), kept)
earlier <- jsonlite::parse_json(sample$json)
earlier$source <- NULL
json <- jsonlite::toJSON(earlier, auto_unbox = TRUE, digits = NA, null = "null")
earlier <- llamaherd:::with_element(sample, "json", as.character(json))
parts <- list(
  saved = list(validation = readRDS(kept)),
  validation = list(validation = validate(other, people)),
  sorted = list(validation = validate(coded[6:1, ], rev(people))),
  estimates = list(
    estimates = estimate(cbind(other, code = people), "code", prob = "simple")
  ),
  earlier = list(estimates = earlier),
  robustness = list(
    robustness = robustness(other, contexts = context, orders = 1)
  )
)
refused <- lapply(parts, \(part) {
  tryCatch(
    {
      do.call(report, c(list(coded, tempfile(fileext = ".json")), part))
      "taken"
    },
    llamaherd_error_argument = \(cnd) gsub("\\s+", " ", conditionMessage(cnd))
  )
})
again <- reproduce(job$of_python, model, n_seq_max = 2)
results <- list(
  same = again$same,
  n = again$n,
  page = format(again),
  refused = refused
)
writeLines(jsonlite::toJSON(results, auto_unbox = TRUE), files[[2]])
