# Run by r_user.py from the project's folder.
source("tests/strangers/r_user/start.R")

examples <- read.csv("examples/data/shots.csv")
shots <- paste0(
  "Text: ",
  examples$text,
  "\nTopic: ",
  examples$topic,
  "\n\n",
  collapse = ""
)
labels <- c("Sports", "Business", "Science", "Politics")
answers <- generate_parallel(
  context,
  choices = labels,
  paste0(
    "Label the topic of each news text: Sports, Business, Science or Politics.\n\n",
    shots,
    "Text: ",
    texts$text,
    "\nTopic:"
  )
)
tell(
  18,
  "the README's labelling example: answers are labels",
  answers %in% labels
)
n_right <- sum(answers == texts$topic)
tell(
  18,
  "the README's labelling example: nine of ten labels are right",
  n_right >= 54,
  sprintf("%d of %d", n_right, length(answers))
)
