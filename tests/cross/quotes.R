# Generates quotes in R: Rscript quotes.R JOB.json QUOTES.json
# The job has model and texts. The results are quotes with their positions, and the return values
# of substr() for these positions.
files <- commandArgs(TRUE)
library(llamaherd)

job <- jsonlite::read_json(files[[1]], simplifyVector = TRUE)
texts <- job$texts
model <- model_load(job$model)
context <- context_create(model, deterministic = TRUE, n_threads = 1)

columns <- function(frame, text) {
  list(
    quote = frame$quote,
    start = frame$start,
    end = frame$end,
    cut = substr(text, frame$start, frame$end)
  )
}
field <- type_object(why = type_quote(least = 2, most = 6))
answers <- generate_parallel(
  context,
  rep("Quote: ", length(texts)),
  schema = field,
  quote_from = texts,
  max_tokens = 150
)
data <- data.frame(text = texts)
topics <- codebook("Which topic?", c("Sports", "Business"))
labels <- annotate_texts(
  data,
  text,
  topics,
  context,
  evidence = TRUE,
  verbosity = -1L
)
fields <- codebook("Why?", type = "fields", schema = field)
found <- annotate_texts(
  data,
  text,
  fields,
  context,
  max_tokens = 80,
  verbosity = -1L
)
book <- codebook("Mark.", c("a", "b"), type = "spans", max_spans = 2)
spans <- annotate_texts(
  data,
  text,
  book,
  context,
  max_tokens = 200,
  temperature = 99,
  verbosity = -1L
)
long <- coded_spans(spans)
jsonlite::write_json(
  list(
    generate = columns(answers$why, texts),
    evidence = columns(labels, texts),
    fields = columns(found$why, texts),
    spans = columns(long, texts[long$row])
  ),
  files[[2]],
  na = "null"
)
page <- function(name) file.path(dirname(files[[2]]), paste0(name, ".html"))
report(labels, page("evidence"))
report(labels[3:2, ], page("rows"))
report(spans, page("spans"))
close(model)
