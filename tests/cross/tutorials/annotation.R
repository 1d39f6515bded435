# Two models annotate the same texts, in a script for localLLM in which only the package's name and
# the models' paths were changed.
library(llamaherd)

data("ag_news_sample", package = "llamaherd")
news <- ag_news_sample[seq(1, 100, by = 9), ]
path <- Sys.getenv("LLAMAHERD_TEST_SMOLLM2")
models <- list(
  list(
    id = "brief",
    model_path = path,
    n_gpu_layers = 0L,
    n_ctx = 4096L,
    n_seq_max = 8L,
    generation = list(max_tokens = 4L, temperature = 0, seed = 1234L)
  ),
  list(
    id = "drawn",
    model_path = path,
    n_gpu_layers = "auto",
    n_seq_max = 8L,
    generation = list(max_tokens = 4L, temperature = 0.8, seed = 42L)
  )
)
template <- list(
  sample_id = seq_len(nrow(news)),
  "Task" = "Label the topic of the text.",
  "Labels" = c("World", "Sports", "Business", "Sci/Tech"),
  "Title" = news$title,
  "Text" = news$description,
  "Output" = "Answer with the label alone."
)
sink_path <- tempfile(fileext = ".csv")
result <- explore(
  models = models,
  prompts = template,
  engine = "parallel",
  batch_size = 8L,
  progress = FALSE,
  clean = TRUE
)
stopifnot(
  identical(names(result$annotations), c("sample_id", "model_id", "label")),
  nrow(result$annotations) == 24,
  identical(names(result$matrix), c("sample_id", "brief", "drawn")),
  nrow(attr(result, "hashes")) == 2
)
print(head(result$matrix))

streamed <- explore(
  models = models[1],
  prompts = template,
  sink = annotation_sink_csv(sink_path),
  progress = FALSE
)
stopifnot(is.null(streamed$annotations), is.null(streamed$matrix))
read <- read.csv(sink_path, encoding = "UTF-8")
first <- result$annotations[result$annotations$model_id == "brief", ]
stopifnot(identical(as.character(read$label), first$label))
saveRDS(list(result = result, truth = news$class), commandArgs(TRUE)[[1]])
cat("annotation: done\n")
