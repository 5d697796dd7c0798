"""A consumer of events from a queue that stops the training in which a rule fired."""

import json
import subprocess
import sys

import boto3

address, queue = sys.argv[1:]
client = boto3.client("sqs", endpoint_url=address)
while True:
    for message in client.receive_message(QueueUrl=queue, WaitTimeSeconds=1).get("Messages", []):
        client.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        detail = json.loads(message["Body"])["detail"]
        statuses = [status["RuleEvaluationStatus"] for status in detail["DebugRuleEvaluationStatuses"]]
        if detail["TrainingJobStatus"] == "InProgress" and "IssuesFound" in statuses:
            subprocess.run([sys.executable, "-m", "leadline", "stop", detail["leadline"]["uri"]], check=True)
            sys.exit()
