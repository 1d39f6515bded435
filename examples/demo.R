# Labels 60 short news texts by topic, all at once, with a 135M-parameter model on the CPU.
#   Rscript examples/demo.R MODEL.gguf
# The prompt is a few-shot completion. A model this small labels better that way than in a
# chat with the same examples (58 of 60 right, against 49), and the 163 tokens that all
# prompts begin with are computed only once. The grammar lets it say nothing but one of
# the four labels (without it 55 are right).

library(llamaherd)

model_path <- commandArgs(trailingOnly = TRUE)[1]
texts <- utils::read.csv("examples/data/headlines.csv", encoding = "UTF-8")
labels <- c("Sports", "Business", "Science", "Politics")

examples <- c(
  "The basketball team won its tenth game in a row." = "Sports",
  "The company's profit doubled and its shares rose." = "Business",
  "Scientists discovered a new species of frog." = "Science",
  "The parliament voted on a new law." = "Politics",
  "The chancellor and the opposition disagreed about the election date." = "Politics",
  "The telescope took pictures of a distant galaxy." = "Science",
  "The bank raised its fees and cut a thousand jobs." = "Business",
  "The runner set a new record in the marathon." = "Sports"
)
shots <- sprintf("Text: %s\nTopic: %s\n\n", names(examples), examples)
prompts <- paste0(
  "Label the topic of each news text: Sports, Business, Science or Politics.\n\n",
  paste(shots, collapse = ""),
  "Text: ",
  texts$text,
  "\nTopic:"
)
grammar <- sprintf(
  'root ::= " " (%s)',
  paste0('"', labels, '"', collapse = " | ")
)

model <- model_load(model_path)
context <- context_create(
  model,
  n_ctx = "auto",
  n_threads = NULL,
  n_seq_max = "auto"
)
cat(sprintf(
  "Labelling %d texts with %s ...\n",
  nrow(texts),
  basename(model_path)
))
answers <- generate_parallel(
  context,
  prompts,
  max_tokens = 8L,
  grammar = grammar
)

label <- trimws(answers)
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
