# Labels 60 short news texts by topic, all at once, with a 135M-parameter model on the CPU.
#   Rscript examples/demo.R MODEL.gguf
# Each prompt shows the model eight labelled texts before the one to be labelled, and
# `choices` lets it say nothing but one of the four labels. docs/labelling.md compares this
# with other ways to ask: a model this small needs both. The 163 tokens that all prompts
# begin with are computed only once.

library(llamaherd)

model_path <- commandArgs(trailingOnly = TRUE)[1]
texts <- utils::read.csv("examples/data/headlines.csv", encoding = "UTF-8")
labels <- c("Sports", "Business", "Science", "Politics")

examples <- utils::read.csv("examples/data/shots.csv", encoding = "UTF-8")
shots <- sprintf("Text: %s\nTopic: %s\n\n", examples$text, examples$topic)
prompts <- paste0(
  "Label the topic of each news text: Sports, Business, Science or Politics.\n\n",
  paste(shots, collapse = ""),
  "Text: ",
  texts$text,
  "\nTopic:"
)

model <- model_load(model_path)
context <- context_create(model)
cat(sprintf(
  "Labelling %d texts with %s ...\n",
  nrow(texts),
  basename(model_path)
))
answers <- generate_parallel(context, prompts, choices = labels)

label <- as.character(answers)
agrees <- label == texts$topic
excerpt <- ifelse(
  nchar(texts$text) > 66,
  paste0(substr(texts$text, 1, 63), "..."),
  texts$text
)
cat(sprintf("\n%-66s  %-8s  %s\n", "text", "label", "agrees"))
cat(sprintf("%s  %s  %s\n", strrep("-", 66), strrep("-", 8), strrep("-", 6)))
cat(
  sprintf(
    "%-66s  %-8s  %s\n",
    excerpt,
    label,
    ifelse(agrees, "yes", paste0("no: ", texts$topic))
  ),
  sep = ""
)
cat(sprintf(
  "\n%d of %d labels agree with the person who wrote the texts.\n\n",
  sum(agrees),
  length(agrees)
))
print(attr(answers, "stats"))
