# Splits a sample, compares codebooks and evaluates the best:
#   Rscript selection.R JOB.json OUT.json
# The job has the fields model, texts, codes (of all texts), sheet (a path) and journal.
files <- commandArgs(TRUE)
library(llamaherd)

job <- jsonlite::read_json(files[[1]], simplifyVector = TRUE)
data <- data.frame(text = job$texts)
gold <- gold_sample(data, 60, text = text, names = c("a", "b"), seed = 1)
codes <- data.frame(id = gold$ids, code = job$codes[gold$rows])
gold <- read_gold(codes, gold)
gold <- gold_split(gold, 1 / 3, 1 / 3, 1 / 3, seed = 2)
write_gold(gold, job$sheet)

context <- context_create(model_load(job$model), n_threads = 1L)
book <- codebook("Which?", c("a", "b"))
shots <- choose_examples(gold, 3, book)
found <- compare_codebooks(
  data,
  list(
    plain = book,
    batch = candidate(book, calibrate = "batch"),
    shots = shots
  ),
  gold,
  context,
  measure = "macro_f1"
)
grDevices::pdf(NULL)
shown <- plot(found)
choice <- best_codebook(found, name = "plain")
first <- evaluate_codebook(choice, job$sheet, context)
again <- NULL
second <- withCallingHandlers(
  evaluate_codebook(best_codebook(found, name = "shots"), job$sheet, context),
  llamaherd_warning_evaluate = \(cnd) {
    again <<- conditionMessage(cnd)
    invokeRestart("muffleWarning")
  }
)
coded <- annotate_texts(data, text, book, context)
angry <- function(task) codebook(task, number_scale(0, 4))
rated <- gold_sample(data, 60, text = text, names = as.character(0:4), seed = 3)
numbers <- (rated$rows - 1) %% 5
sheet <- data.frame(id = rated$ids, anna = numbers, ben = pmin(numbers + 1, 4))
rated <- gold_split(read_gold(sheet, rated), 0, 1 / 2, 1 / 2, seed = 4)
scales <- compare_codebooks(
  data,
  list(one = angry("How angry?"), other = angry("Rate the anger.")),
  rated,
  context
)
scale_choice <- best_codebook(scales)
effect <- tryCatch(
  choose_examples(gold, 3, book, context = context, calibrate = "batch"),
  condition = conditionMessage
)
results <- list(
  scales = scales$summary,
  scale_pairs = scales$pairs,
  scale_value = evaluate_codebook(scale_choice, rated, context)$value,
  parts = gold$parts,
  probs = gold_part(gold, "select")$probs,
  shots = shots$hash,
  summary = found$summary,
  pairs = found$pairs,
  tied = found$tied,
  plotted = list(
    name = shown$scales$get_scales("y")$labels,
    value = shown$data$x[as.integer(shown$data$panel) == 1]
  ),
  hash = choice$hash,
  value = first$value,
  first = c(first$first, second$first),
  opened = second$opened$name,
  again = again,
  stored = length(gold_part(read_gold(job$sheet), "evaluate")$ids),
  wrong = disagreements(coded, gold),
  hardest = choose_examples(gold, 3, book, by = "hardest", coded = coded)$hash,
  effect = effect,
  size = gold_size(compare = 0.05)$gold
)
json <- jsonlite::toJSON(
  results,
  dataframe = "columns",
  na = "null",
  digits = NA
)
writeBin(charToRaw(enc2utf8(json)), files[[2]])
